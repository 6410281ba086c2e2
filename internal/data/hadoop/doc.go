// Package hadoop knows Hadoop's command line and the rules of Hadoop Streaming: options,
// job properties with their old and new names, the division of lines into keys and
// values, partitioners, comparators, the package of aggregators, and the lines that tools
// parse.
//
// The package is pure: it reads no files and runs nothing. Package cli carries out the
// commands, and package mapreduce runs the jobs.
//
// A streaming job passes through it in this order. ParseStreaming reads the command line, and refuses what
// Hadoop's parser refuses, in its words. Conf has the properties: of -conf files, of -D, and of the options
// (ApplyOptions), each under the old and the new name. Check reports properties that act otherwise than in Hadoop.
// The job's description carries the Conf to every task, where NewRules turns it into the rules by which lines
// become keys and values.
//
// The rules were compared with the streaming of Hadoop 3.4.2. The names of Hadoop 1 are accepted beside the
// new ones.
//
// To support a property: change its row in properties, read it in NewRules or where the job is built, and
// describe it in docs/coming-from-hadoop.md. A class needs a row in inputFormats, outputFormats, partitioners
// or builtinClasses.
package hadoop
