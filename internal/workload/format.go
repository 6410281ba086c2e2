package workload

import (
	"fmt"
	"io"
	"strings"
)

// Options configures Read. The zero value selects the defaults.
type Options struct {
	// Trace applies to all traces; it replaces the TraceOptions of SWIM.
	Trace TraceOptions
	SWIM  SWIMOptions
	// Stages is as in RumenOptions.
	Stages bool
	// Profiles are cost profiles of apps that a job mix may name.
	Profiles []Profile
}

// format is one way to read jobs. A format with warnings returns a *Trace.
type format struct {
	name, summary string
	read          func(file string, in io.Reader, o *Options) (Source, error)
}

// formats lists the formats in the order of help texts.
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
	{"hadoop", "a folder of the logs that a JobTracker of Hadoop 0.20 to 1.2 keeps of its jobs, or one such log", func(file string, in io.Reader, o *Options) (Source, error) {
		one := HistoryFile{file, func() (io.ReadCloser, error) { return io.NopCloser(in), nil }}
		return orNone(ReadHistory(file, []HistoryFile{one}, RumenOptions{o.Trace, o.Stages}))
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

// Formats returns the names that Read accepts, each with a one-line
// description.
func Formats() [][2]string {
	var list [][2]string
	for _, f := range formats {
		list = append(list, [2]string{f.name, f.summary})
	}
	return list
}

// SplitSpec splits a workload as command lines spell it, such as swim:day.tsv,
// into format and file. Without a format it is a job mix.
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

// Read reads a workload in the named format. A *Trace carries warnings.
func Read(name, file string, in io.Reader, options Options) (Source, error) {
	for _, f := range formats {
		if f.name == name {
			return f.read(file, in, &options)
		}
	}
	return nil, fmt.Errorf("%s: unknown format %q", file, name)
}
