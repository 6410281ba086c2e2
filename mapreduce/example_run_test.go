package mapreduce_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/hdfs"
	"github.com/slotwise/slotwise/mapreduce/remote"
	"github.com/slotwise/slotwise/mapreduce/s3"
)

// wordCount is the job of the examples.
func wordCount() *mapreduce.Job {
	return &mapreduce.Job{
		Name: "wordcount",
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
				for word := range bytes.FieldsSeq(line) {
					out.Add(word, 1)
				}
				return nil
			})
		},
		Aggregate: mapreduce.Sum,
		Reducer:   mapreduce.SumText,
	}
}

// input writes a file into a new directory.
func input(text string) (dir, file string) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	file = filepath.Join(dir, "in.txt")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		log.Fatal(err)
	}
	return dir, file
}

// Run runs a job in this process and returns its counters.
func ExampleRun() {
	dir, file := input("to be or not to be\n")
	defer os.RemoveAll(dir)
	r, err := mapreduce.Run(context.Background(), wordCount(), mapreduce.Options{
		Inputs: []string{file},
		Output: filepath.Join(dir, "out"),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.State, r.Counters["map.output_records"], "words,", r.Counters["reduce.input_groups"], "distinct")
	// Output:
	// succeeded 6 words, 4 distinct
}

// Main makes a program of a job. The features give it more storage than local
// files, and clusters.
func ExampleMain() {
	mapreduce.Main(wordCount(), hdfs.Storage(), s3.Storage(), remote.Client())
}

// A program that uses a cluster without Main calls RunAttempt first: workers run
// the program for each task.
func ExampleRunAttempt() {
	app := &mapreduce.App{
		Name: "wordcount",
		Job:  func(mapreduce.Params) (*mapreduce.Job, error) { return wordCount(), nil },
	}
	mapreduce.RunAttempt(func(name string) (*mapreduce.App, error) {
		if name != app.Name {
			return nil, fmt.Errorf("no app %s", name)
		}
		return app, nil
	}, remote.Client())

	_, err := mapreduce.RunApp(context.Background(), app, nil, mapreduce.Options{
		Inputs: []string{"/shared/books"},
		Output: "/shared/counts",
		Remote: &remote.Cluster{Master: "10.0.0.1:7077"},
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A chain runs jobs one after the other. Here the second one sorts the words by
// how often they occur.
func ExampleRunApp() {
	app := &mapreduce.App{
		Name: "topwords",
		Steps: map[string]func(mapreduce.Params) (*mapreduce.Job, error){
			"count": func(mapreduce.Params) (*mapreduce.Job, error) { return wordCount(), nil },
			"sort": func(mapreduce.Params) (*mapreduce.Job, error) {
				return &mapreduce.Job{
					Name:  "sort",
					Input: mapreduce.KeyValue,
					Mapper: func() mapreduce.Mapper {
						return mapreduce.MapperFunc(func(word, count []byte, out *mapreduce.Emitter) error {
							n, err := strconv.ParseInt(string(count), 10, 64)
							out.Emit(mapreduce.AppendInt64(nil, -n), word) // largest first
							return err
						})
					},
					Reducer: func() mapreduce.Reducer {
						return mapreduce.ReducerFunc(func(key []byte, words iter.Seq[[]byte], out *mapreduce.Emitter) error {
							for word := range words {
								out.Emit(word, strconv.AppendInt(nil, -mapreduce.Int64(key), 10))
							}
							return nil
						})
					},
					Reduces: 1,
				}, nil
			},
		},
		Chain: func(ctx context.Context, c *mapreduce.Chain) error {
			if err := c.Step(ctx, "count", nil, c.Inputs, c.Temp("counts")); err != nil {
				return err
			}
			return c.Step(ctx, "sort", nil, []string{c.Temp("counts")}, c.Output())
		},
	}
	dir, file := input("b a c\nb a\nb\n")
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "out")
	results, err := mapreduce.RunApp(context.Background(), app, nil, mapreduce.Options{Inputs: []string{file}, Output: out})
	if err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "part-r-00000"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d jobs\n%s", len(results), strings.ReplaceAll(string(text), "\t", " "))
	// Output:
	// 2 jobs
	// b 3
	// a 2
	// c 1
}

// The commands of a streaming job read and print lines.
func ExampleStreaming() {
	job, err := mapreduce.Streaming(mapreduce.StreamingOptions{
		Mapper:  `tr -s '[:space:]' '\n'`,
		Reducer: `uniq -c | tr -s ' '`,
	})
	if err != nil {
		log.Fatal(err)
	}
	run(job, "the cat\nthe dog\n")
	// Output:
	//  1 cat
	//  1 dog
	//  2 the
}

// Jobs of a mix share the slots of one cluster under a policy.
func ExampleRunMix() {
	dir, file := input("a b\n")
	defer os.RemoveAll(dir)
	o := mapreduce.Options{Inputs: []string{file}}
	r, err := mapreduce.RunMix(context.Background(), []mapreduce.MixJob{
		{Name: "first", Job: wordCount(), Options: o},
		{Name: "second", Job: wordCount(), Options: o, After: []int{0}},
	}, mapreduce.MixOptions{Cluster: mapreduce.ClusterOptions{Policy: "fair"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range r.Jobs {
		fmt.Println(e.Name, e.State)
	}
	// Output:
	// first succeeded
	// second succeeded
}

// Prepare reads a file that the mappers need: here the words to leave out.
func ExampleJob_prepare() {
	dir, stop := input("the\nand\n")
	defer os.RemoveAll(dir)
	job := wordCount()
	skip := map[string]bool{}
	job.Prepare = func(ctx context.Context, files *mapreduce.Files) error {
		return files.ReadRecords(ctx, stop, mapreduce.Text, func(_, word []byte) error {
			skip[string(word)] = true
			return nil
		})
	}
	job.Mapper = func() mapreduce.Mapper {
		return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
			for word := range bytes.FieldsSeq(line) {
				if !skip[string(word)] {
					out.Add(word, 1)
				}
			}
			return nil
		})
	}
	run(job, "the cat and the dog\n")
	// Output:
	// cat 1
	// dog 1
}
