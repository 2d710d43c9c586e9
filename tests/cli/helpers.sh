# helpers.sh - for the commands of the recorded cases.

layer=subm,cin=4,cout=6,k=3,dtype=f32
scene=gen:uniform,n=300,extent=12

# Figures that differ from run to run become N.
steady() {
    sed -E 's/[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?/N/g; s/ +/ /g; s/ $//'
}

# The first words of each line only: what a sentence is about.
first() {
    cut -c "1-$1"
}
