//! How far long work has come: a bar on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

pub(crate) struct Progress {
    label: String,
    total: usize,
    done: usize,
    show: Show,
}

enum Show {
    Bar(ProgressBar),
    /// Lines, the next of them at this quarter.
    Lines(usize),
    Nothing,
}

impl Progress {
    pub(crate) fn new(label: impl Into<String>, total: usize) -> Self {
        let label = label.into();
        let show = if stderr().is_terminal() {
            let style =
                ProgressStyle::with_template("{msg:28} [{bar:30}] {percent:>3} %  {eta:>4} left")
                    .expect("the template is a constant");
            let bar = ProgressBar::new(total as u64)
                .with_style(style)
                .with_message(label.clone());
            bar.tick();
            Show::Bar(bar)
        } else {
            eprintln!("{label} ...");
            Show::Lines(1)
        };
        Progress {
            label,
            total,
            done: 0,
            show,
        }
    }

    pub(crate) fn silent() -> Self {
        Progress {
            label: String::new(),
            total: 0,
            done: 0,
            show: Show::Nothing,
        }
    }

    pub(crate) fn advance(&mut self, steps: usize) {
        self.done += steps;
        match &mut self.show {
            Show::Bar(bar) => bar.set_position(self.done as u64),
            Show::Lines(quarter) => {
                let reached = self.done * 4 / self.total.max(1);
                if reached >= *quarter && reached < 4 {
                    eprintln!("{}: {} %", self.label, reached * 25);
                    *quarter = reached + 1;
                }
            }
            Show::Nothing => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Show::Bar(bar) = &self.show {
            bar.finish_and_clear();
        }
    }
}
