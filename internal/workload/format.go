package workload

import (
	"fmt"
	"io"
	"strings"
)

// Options are what Read needs to know of the formats. The zero value has every
// default.
type Options struct {
	// Trace is for all traces; it replaces that of SWIM.
	Trace TraceOptions
	SWIM  SWIMOptions
	// Stages is that of RumenOptions.
	Stages bool
	// Profiles are the apps that a job mix may name.
	Profiles []Profile
}

// format is a way to read jobs. Warnings come with a Trace.
type format struct {
	name, summary string
	read          func(file string, in io.Reader, o *Options) (Source, error)
}

// formats lists them in the order in which they are shown.
var formats = []format{
	{"mix", "a job mix of this project (YAML)", func(file string, in io.Reader, o *Options) (Source, error) {
		return orNone(ReadMix(file, in, o.Profiles...))
	}},
	{"swim", "SWIM: a line of bytes for each job", func(file string, in io.Reader, o *Options) (Source, error) {
		swim := o.SWIM
		swim.TraceOptions = o.Trace
		return orNone(ReadSWIM(file, in, swim))
	}},
	{"rumen", "Hadoop's Rumen: the tasks of each job (JSON)", func(file string, in io.Reader, o *Options) (Source, error) {
		return orNone(ReadRumen(file, in, RumenOptions{o.Trace, o.Stages}))
	}},
	{"sls", "Hadoop's scheduler load simulator: the containers of each job (JSON)", func(file string, in io.Reader, o *Options) (Source, error) {
		return orNone(ReadSLS(file, in, o.Trace))
	}},
	{"synth", "Hadoop's synthetic generator: classes of jobs (JSON)", func(file string, in io.Reader, _ *Options) (Source, error) {
		return orNone(ReadSynth(file, in))
	}},
}

// orNone keeps a nil pointer from becoming a Source that is not nil.
func orNone[S Source](s S, err error) (Source, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Formats returns the names that Read knows, each with a line about it.
func Formats() [][2]string {
	var list [][2]string
	for _, f := range formats {
		list = append(list, [2]string{f.name, f.summary})
	}
	return list
}

// SplitSpec splits what a command line says of a workload, such as swim:day.tsv,
// into format and file. Without the name of a format it is a mix.
func SplitSpec(spec string) (format, file string) {
	if name, rest, ok := strings.Cut(spec, ":"); ok {
		for _, f := range formats {
			if f.name == name {
				return name, rest
			}
		}
	}
	return formats[0].name, spec
}

// Read reads a workload in a format by its name. A Trace, which has warnings, is
// returned as *Trace.
func Read(name, file string, in io.Reader, options Options) (Source, error) {
	for _, f := range formats {
		if f.name == name {
			return f.read(file, in, &options)
		}
	}
	return nil, fmt.Errorf("%s: unknown format %q", file, name)
}
