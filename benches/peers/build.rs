//! Builds the shim of liburcu, once per flavour, where the library is installed.

const FLAVOURS: [(&str, &str); 3] = [
    ("memb", "liburcu"),
    ("bp", "liburcu-bp"),
    ("qsbr", "liburcu-qsbr"),
];

fn main() {
    println!("cargo:rerun-if-changed=c/liburcu.c");
    println!("cargo:rustc-check-cfg=cfg(liburcu)");
    let mut probe = pkg_config::Config::new();
    let probe = probe.cargo_metadata(false);
    let libraries: Result<Vec<_>, _> = FLAVOURS
        .iter()
        .map(|(_, library)| probe.probe(library))
        .collect();
    // Its rows are left out then, which the scoreboard says.
    let Ok(libraries) = libraries else { return };
    // As arguments to the scoreboard alone: what is told as a library would go to this package's library.
    let argument = |argument: &str| println!("cargo:rustc-link-arg-bins={argument}");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    for ((flavour, _), library) in FLAVOURS.iter().zip(&libraries) {
        let shim = format!("scoreboard_{flavour}");
        cc::Build::new()
            .cargo_metadata(false)
            .file("c/liburcu.c")
            .includes(&library.include_paths)
            .define(&format!("FLAVOUR_{}", flavour.to_uppercase()), None)
            .define("FLAVOUR", *flavour)
            .opt_level(3)
            .compile(&shim);
        argument(&format!("{out}/lib{shim}.a"));
    }
    // After the shims that need them.
    for library in &libraries {
        for path in &library.link_paths {
            argument(&format!("-L{}", path.display()));
        }
        for name in &library.libs {
            argument(&format!("-l{name}"));
        }
    }
    println!("cargo:rustc-cfg=liburcu");
}
