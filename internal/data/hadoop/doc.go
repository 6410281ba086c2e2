// Package hadoop knows Hadoop's command line and the rules of Hadoop Streaming: options,
// job properties with their old and new names, the division of lines into keys and
// values, partitioners, comparators, the package of aggregators, and the lines that tools
// parse.
//
// The package is pure: it reads no files and runs nothing. Package cli carries out the
// commands, and package mapreduce runs the jobs.
package hadoop
