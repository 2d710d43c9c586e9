# helpers.sh - for the commands of the recorded cases.

layer=subm,cin=4,cout=6,k=3,dtype=f32
scene=gen:uniform,n=300,extent=12

# Figures that differ from run to run become N, and so do winners; a sanitizer's
# report of a crash that was meant is not ours.
steady() {
    sed -E -e '/^(AddressSanitizer|=+$|==[0-9]+==)/d' \
        -e 's/plain tile=[0-9]+,step=[0-9],order=[a-z]+/plain WINNER/' \
        -e 's/[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?/N/g' -e 's/ +/ /g' -e 's/ $//'
}

# The first words of each line only: what a sentence is about.
first() {
    cut -c "1-$1"
}

# A command on a layer for which a template makes its N-th mistake.
mistake() {
    n=$1
    shift
    spctune -q -d cpu --templates templates/mistakes "$@" subm,cin=$n,cout=6,k=3,dtype=f32 --database ""
}
