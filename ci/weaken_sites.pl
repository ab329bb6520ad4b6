#!/usr/bin/env perl
# Lists the orderings and fences that stand in `edge!`, one line for each way to weaken one:
# label, file:line:column:ordering as the build wants it, edges, file; by tabs. The label survives an edit elsewhere:
# edges, file, type and function, what stands there, what it becomes, and which of several alike.
use strict;
use warnings;
use open qw(:std :encoding(UTF-8));

my %weaker = (
    Acquire => ['Relaxed'],
    Release => ['Relaxed'],
    AcqRel  => [ 'Acquire', 'Release', 'Relaxed' ],
);
my %alike;
for my $path (@ARGV) {
    open my $file, '<', $path or die "$path: $!";
    my $text = do { local $/; <$file> };
    $text =~ s{//[^\n]*}{' ' x length $&}ge;
    my ( $type, $function ) = ( '', '' );
    while (
        $text =~ m{
            ^\s*(?:unsafe\s+)?impl\b\s*(<(?:[^<>]++|(?1))*>)?\s*(?:[\w:]+\s*(?1)?\s+for\s+)?(\w+)
            | \bfn\s+(\w+)
            | \bedge!\(\s*(O\d+(?:\s+O\d+)*)\s*,\s*((?:\w|::)+)
        }gmx
      )
    {
        if ( defined $2 ) { $type = $2; next }
        if ( defined $3 ) { $function = $3; next }
        my ( $edges, $what ) = ( $4, $5 );
        my $start  = index $text, 'edge!', $-[0];
        my $before = substr $text, 0, $start;
        my $line   = 1 + ( $before =~ tr/\n// );
        my $column = $start - rindex( $before, "\n" );
        ( my $name = $path ) =~ s{^src/}{};
        for my $to ( @{ $weaker{$what} // ['Relaxed'] } ) {
            my $change = $weaker{$what} ? "$what>$to" : "no_fence";
            my $label = join ' ', $edges, $name, ( $type ? "${type}::" : '' ) . $function, $change;
            my $nth = ++$alike{$label};
            $label .= " #$nth" if $nth > 1;
            print join( "\t", $label, "$path:$line:$column:$to", $edges, $name ), "\n";
        }
    }
}
