package workload

import (
	"fmt"
	"io"
	"iter"
	"strings"
)

// Options configures Read. The zero value selects the defaults.
type Options struct {
	// Trace applies to all traces; it replaces the TraceOptions of SWIM.
	Trace TraceOptions
	SWIM  SWIMOptions
	// Stages is as in RumenOptions.
	Stages bool
	// Batch is as in GoogleOptions.
	Batch bool
	// Past returns the jobs of slotwise's own history, in the order of their numbers.
	Past iter.Seq2[*PastJob, error]
	// Profiles are cost profiles of apps that a job mix may name.
	Profiles []Profile
}

// File is one file of a folder that holds a workload. Open returns its decompressed
// content.
type File struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// format is one way to read jobs. A format with warnings returns a *Trace. Exactly one of
// read and folder is set; folder also reads a single file.
type format struct {
	name, summary string
	read          func(file string, in io.Reader, o *Options) (Source, error)
	folder        func(folder string, files []File, o *Options) (Source, error)
}

// PastFormat is the name of the format that reads slotwise's own history.
const PastFormat = "history"

// formats lists the formats in the order of help texts.
var formats = []format{
	{"mix", "a job mix of this project (YAML)", func(file string, in io.Reader, o *Options) (Source, error) {
		return orNone(ReadMix(file, in, o.Profiles...))
	}, nil},
	{"swim", "SWIM: a line of bytes for each job", func(file string, in io.Reader, o *Options) (Source, error) {
		// A copy: the caller's options may be read again for the next file.
		swim := o.SWIM
		swim.TraceOptions = o.Trace
		return orNone(ReadSWIM(file, in, swim))
	}, nil},
	{"rumen", "Hadoop's Rumen: the tasks of each job (JSON)", func(file string, in io.Reader, o *Options) (Source, error) {
		return orNone(ReadRumen(file, in, RumenOptions{o.Trace, o.Stages}))
	}, nil},
	{"hadoop", "a folder of the logs that Hadoop keeps of its jobs, or one such log: a JobTracker's of 0.20 to 1.2, or .jhist", nil,
		func(folder string, files []File, o *Options) (Source, error) {
			return orNone(ReadHistory(folder, files, RumenOptions{o.Trace, o.Stages}))
		}},
	{PastFormat, "the directory of a master or of run --history: jobs that have ended", nil,
		func(folder string, _ []File, o *Options) (Source, error) {
			return orNone(ReadPast(folder, o.Past, o.Trace))
		}},
	{"spark", "a folder of Spark's event logs, or one such log: stages as maps and reduces (JSON)", nil,
		func(folder string, files []File, o *Options) (Source, error) {
			return orNone(ReadSpark(folder, files, o.Trace))
		}},
	{"google", "Google's ClusterData 2019: collection_events and instance_events (JSON or CSV with a header), in a file or a folder", nil,
		func(folder string, files []File, o *Options) (Source, error) {
			return orNone(ReadGoogle(folder, files, GoogleOptions{o.Trace, o.Batch}))
		}},
	{"alibaba", "Alibaba's cluster-trace-v2018: batch_task and batch_instance (CSV), in a file or a folder", nil,
		func(folder string, files []File, o *Options) (Source, error) {
			return orNone(ReadAlibaba(folder, files, o.Trace))
		}},
	{"sls", "Hadoop's scheduler load simulator: the containers of each job (JSON)", func(file string, in io.Reader, o *Options) (Source, error) {
		return orNone(ReadSLS(file, in, o.Trace))
	}, nil},
	{"synth", "Hadoop's synthetic generator: classes of jobs (JSON)", func(file string, in io.Reader, _ *Options) (Source, error) {
		return orNone(ReadSynth(file, in))
	}, nil},
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
		// Only a known name is a format, so C:\jobs.yaml and a file with a colon stay files.
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
	f := formatOf(name)
	switch {
	case f == nil:
		return nil, fmt.Errorf("%s: unknown format %q", file, name)
	case f.folder != nil:
		one := File{file, func() (io.ReadCloser, error) { return io.NopCloser(in), nil }}
		return f.folder(file, []File{one}, &options)
	}
	return f.read(file, in, &options)
}

// ReadFolder reads a workload from the files of a folder, in any order.
func ReadFolder(name, folder string, files []File, options Options) (Source, error) {
	f := formatOf(name)
	if f == nil || f.folder == nil {
		return nil, fmt.Errorf("%s: is a folder; %s reads a file", folder, name)
	}
	return f.folder(folder, files, &options)
}

// formatOf returns the format of a name, or nil.
func formatOf(name string) *format {
	for i := range formats {
		if formats[i].name == name {
			return &formats[i]
		}
	}
	return nil
}
