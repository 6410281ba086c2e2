package study

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/internal/virtual/world"
	"github.com/slotwise/slotwise/sched/job"
)

// mostText bounds the files whose content a record contains: a study, a job mix or a cluster is
// small, and a trace is not.
const mostText = 64 << 10

// FileOf describes a file that a setting names, for a record. A directory counts with all files in
// it. Pipes have no digest, because they can be read only once.
func FileOf(use, name string) (report.File, error) {
	f := report.File{Use: use, Name: name}
	info, err := os.Stat(name)
	if err != nil {
		return f, err
	}
	h := sha256.New()
	switch {
	case info.IsDir():
		f.Bytes, err = hashFolder(h, name)
	case info.Mode().IsRegular():
		f.Bytes, err = hashFile(h, name)
		if err == nil && f.Bytes <= mostText {
			var b []byte
			if b, err = os.ReadFile(name); err == nil && utf8.Valid(b) && !strings.ContainsRune(string(b), 0) {
				f.Text = string(b)
			}
		}
	// A pipe: reading it here would leave nothing for the reader of the workload.
	default:
		return f, nil
	}
	f.Digest = prefix(h)
	return f, err
}

// hashFile adds a file to a hash and returns its size.
func hashFile(h hash.Hash, name string) (int64, error) {
	in, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	return io.Copy(h, in)
}

// hashFolder adds the names and contents of all files in a folder to a hash, in the order of names.
func hashFolder(h hash.Hash, folder string) (int64, error) {
	total := int64(0)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		// The name, quoted and on a line: two files whose contents are moved from one to the other are
		// another folder. Slashes, so that the digest is the same on Windows.
		fmt.Fprintf(h, "%q\n", filepath.ToSlash(name))
		n, err := hashFile(h, path)
		total += n
		return err
	})
	return total, err
}

// prefix returns the first 16 hexadecimal digits of a hash.
// They tell results apart; they are no protection against somebody who looks for two equal ones.
func prefix(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:8]) }

// DigestOf returns the digest of a value's JSON.
func DigestOf(v any) string {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(v); err != nil {
		panic(err) // all values are plain
	}
	return prefix(h)
}

// DigestJobs returns the SHA-256 of all that a run reads of its jobs except their Origin, in hexadecimal.
// Origin says from which kind of source the jobs come, and records name the source.
func DigestJobs(jobs []workload.Job) string {
	h := sha256.New()
	for i := range jobs {
		j := &jobs[i]
		fmt.Fprintf(h, "%q %q %q %s %d %d %v %d %d\n", j.Name, j.App, j.Class, requestText(&j.Request),
			j.Submit, j.Plan, j.After, j.Count(job.Map), j.Count(job.Reduce))
		// Only where it is set, so the digests of all other jobs equal the published ones.
		if j.Resident != 0 {
			fmt.Fprintf(h, "resident %d\n", j.Resident)
		}
		// An outline makes its tasks here, job by job, so a trace of millions of tasks is not in memory at
		// once.
		for _, tasks := range j.Tasks() {
			digestTasks(h, tasks)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// requestText returns the fields of a request that are set. A field that is added to all requests leaves
// the digests of jobs without it unchanged.
func requestText(r *job.Request) string {
	var b strings.Builder
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() {
			fmt.Fprintf(&b, "%s=%#v ", v.Type().Field(i).Name, f.Interface())
		}
	}
	return b.String()
}

// digestTasks adds tasks to a digest.
func digestTasks(h hash.Hash, tasks []workload.Task) {
	var b []byte
	for i := range tasks {
		t := &tasks[i]
		b = b[:0]
		for _, n := range []int64{int64(t.Duration), int64(t.Fetch), t.Input, t.Output, int64(t.CPU), int64(len(t.Hosts))} {
			// Numbers of fixed length, and the number of hosts before the hosts: no two lists of tasks have the
			// same bytes.
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		for _, host := range t.Hosts {
			b = append(append(b, host...), 0)
		}
		h.Write(b) // a hash returns no error
	}
}

// JobsDigest is the entry of a record for the jobs of a seed.
func JobsDigest(name string, jobs []workload.Job) report.Digest {
	return report.Digest{Name: fmt.Sprintf("%s (%d)", name, len(jobs)), Digest: DigestJobs(jobs)[:16]}
}

// WorldOf is the entry of a record for a world. A parameter that is added to all worlds with an
// empty value leaves the digest unchanged.
func WorldOf(name string, m sim.ModelConfig) report.World {
	w := report.World{Digest: report.Digest{Name: name, Digest: DigestOf(stated(m))}}
	for _, k := range world.Keys() {
		w.Values = append(w.Values, report.Setting{Name: k.Name, Value: k.Show(m)})
	}
	return w
}

// stated returns the JSON object of a value without its empty members.
func stated(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // all fields are plain values
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // a float64 does not hold all seeds
	var all any
	if err := d.Decode(&all); err != nil {
		panic(err) // Marshal has written it
	}
	return withoutEmpty(all)
}

// withoutEmpty removes the members of objects that are null, false, 0, "" or have no members.
// A parameter that some version adds with the value "as before" must not change the digests of all worlds
// that do not use it, or published results would look as if they had other inputs.
func withoutEmpty(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for key, value := range x {
			// Members first: an object whose members are all empty is empty itself.
			if value = withoutEmpty(value); value == nil {
				delete(x, key)
			} else {
				x[key] = value
			}
		}
		if len(x) == 0 {
			return nil
		}
	// Elements stay, also empty ones: their positions have a meaning.
	case []any:
		if len(x) == 0 {
			return nil
		}
		for i := range x {
			x[i] = withoutEmpty(x[i])
		}
	case bool:
		if !x {
			return nil
		}
	case json.Number:
		// Marshal writes 0.0 as 0, too.
		if x == "0" {
			return nil
		}
	case string:
		if x == "" {
			return nil
		}
	}
	return v
}

// record completes Config.Record with digests of the inputs. The jobs of a trace, which do
// not depend on the seed, have one entry.
func (s *Study) record() *report.Record {
	r := *s.cfg.Record
	for _, d := range s.drafts {
		name := fmt.Sprintf("seed %d", d.seed)
		if WorkloadOf(s.cfg.Workload, nil).Fixed {
			name = "every seed"
		}
		r.Jobs = append(r.Jobs, JobsDigest(name, d.jobs))
		if name == "every seed" {
			break
		}
	}
	r.Clusters = []report.Digest{ClusterDigest(s.cfg.ClusterName, s.cfg.Cluster)}
	r.Worlds = []report.World{WorldOf(s.cfg.World, s.model)}
	return &r
}

// RecordID returns a digest of all that a record says about the inputs of a result.
func RecordID(r *report.Record) string {
	x := *r
	x.Result = ""
	return DigestOf(x)
}

// ClusterDigest is the entry of a record for a cluster.
func ClusterDigest(name string, c workload.Cluster) report.Digest {
	return report.Digest{Name: name, Digest: DigestOf(stated(c))}
}

// digestRuns returns the digest of the numbers of runs. The number of events that the simulator needed is
// left out.
func digestRuns(runs []*collect.Report) string {
	list := make([]collect.Report, len(runs))
	for i, r := range runs {
		list[i] = *r
		// A faster simulator needs fewer events for the same numbers.
		list[i].Events = 0
	}
	return DigestOf(list)
}
