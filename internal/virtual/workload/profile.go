package workload

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// Profile is the cost of an app, measured in real runs. Costs are core-seconds
// on a core of speed 1, per task (…Start) or per MB (10⁶ bytes); ratios are
// bytes over bytes. A cost that a file omits is 0: the model ignores it.
type Profile struct {
	// App is the app's name; Source describes the measurement.
	App, Source string
	// Plan is the time, in seconds, that a submitter takes before it submits a
	// job: to list the input, and to sample it for a total order.
	Plan float64
	// MapStart is paid for each map of any size.
	MapStart float64
	// MapCPU is paid for each MB of a map's input: reading, the map function,
	// and emitting.
	MapCPU float64
	// MapSelectivity is bytes emitted over bytes read. CombinerRatio is the
	// fraction of the emitted bytes that remains after the combiner; 1 without
	// one.
	MapSelectivity, CombinerRatio float64
	// CombinerRatio holds for a map of Split bytes. A map of x bytes keeps
	// CombinerRatio·(x/Split)^−CombinerDecay of its output, because more
	// records share a key. Heaps' law is such a power for the words of a text.
	// With CombinerDecay 0 the ratio is the same for all sizes.
	CombinerDecay, Split float64
	// SortCPU is paid for each MB emitted: sorting, combining, spilling,
	// merging.
	SortCPU float64
	// ReduceStart is paid for each reduce, and ReduceCPU for each MB of its
	// input. MergeCPU is paid for each MB and each comparison of a record in
	// the merge of the maps' outputs; a record is compared MergeDepth(maps)
	// times.
	ReduceStart, ReduceCPU, MergeCPU float64
	// ReduceSelectivity is a reduce's output over its input.
	ReduceSelectivity float64
	// InputRecord, MapRecord and OutputRecord are mean sizes in bytes of the
	// records read, emitted and written; 0 means unknown. They inform people;
	// the model does not use them.
	InputRecord, MapRecord, OutputRecord float64
	// Hints are resource hints for jobs that have none of their own.
	Hints [job.Kinds]job.Ratings
}

// mega is the number of bytes in an MB.
const mega = 1e6

// MapTask returns a map that reads input bytes.
func (p *Profile) MapTask(input int64) Task {
	in := float64(input)
	emitted := float64(in * p.MapSelectivity)
	return Task{Input: input, Output: int64(math.Round(emitted * p.left(in))),
		CPU: cores(float64(p.MapStart*mega) + float64(in*p.MapCPU) + float64(emitted*p.SortCPU))}
}

// left returns the fraction that the combiner leaves in a map of input bytes.
func (p *Profile) left(input float64) float64 {
	if p.CombinerDecay == 0 || p.Split <= 0 || input <= 0 {
		return p.CombinerRatio
	}
	// A combiner never adds records, but the power does for maps much smaller than the measured one.
	return min(1, float64(p.CombinerRatio*portable.Pow(input/p.Split, -p.CombinerDecay)))
}

// ReduceTask returns a reduce of input bytes that come from a number of maps.
// In a tournament of n runs each record wins log₂ n comparisons, so the merge costs bytes times depth; the
// rest of a reduce does not depend on the number of maps.
func (p *Profile) ReduceTask(input int64, maps int) Task {
	in := float64(input)
	perMB := p.ReduceCPU + float64(p.MergeCPU*MergeDepth(maps))
	return Task{Input: input, Output: int64(math.Round(in * p.ReduceSelectivity)),
		CPU: cores(float64(p.ReduceStart*mega) + float64(in*perMB))}
}

// MergeDepth returns the mean number of comparisons per record in a tournament
// of n runs: log₂(n) for a power of two, else the mean depth of the balanced
// tree.
func MergeDepth(n int) float64 {
	if n <= 1 {
		return 0
	}
	levels := bits.Len(uint(n)) - 1
	// With n = 2^levels + r leaves, 2r leaves are one level deeper than the others.
	return float64(levels) + 2*float64(n-1<<levels)/float64(n)
}

// PlanTime returns Plan as a duration.
// cores returns at least 1 ns, which no plan would have; hence the -1.
func (p *Profile) PlanTime() time.Duration { return cores(p.Plan*mega) - 1 }

// cores converts bytes times core-seconds per MB into a duration of at least 1
// ns, because a task without any cost would count as one without a stated cost.
func cores(v float64) time.Duration {
	return time.Duration(max(1, min(math.Round(v/mega*1e9), float64(maxTime))))
}

// costs lists the numbers of a profile in the order of the file.
var costs = []struct {
	key string
	of  func(*Profile) *float64
	// without is the default; negative means that the file must state the
	// number.
	without float64
}{
	{"plan", func(p *Profile) *float64 { return &p.Plan }, 0},
	{"map-start", func(p *Profile) *float64 { return &p.MapStart }, 0},
	{"map-cpu", func(p *Profile) *float64 { return &p.MapCPU }, -1},
	{"map-selectivity", func(p *Profile) *float64 { return &p.MapSelectivity }, -1},
	{"combiner-ratio", func(p *Profile) *float64 { return &p.CombinerRatio }, 1},
	{"combiner-decay", func(p *Profile) *float64 { return &p.CombinerDecay }, 0},
	{"split", func(p *Profile) *float64 { return &p.Split }, 0},
	{"sort-cpu", func(p *Profile) *float64 { return &p.SortCPU }, 0},
	{"reduce-start", func(p *Profile) *float64 { return &p.ReduceStart }, 0},
	{"reduce-cpu", func(p *Profile) *float64 { return &p.ReduceCPU }, -1},
	{"merge-cpu", func(p *Profile) *float64 { return &p.MergeCPU }, 0},
	{"reduce-selectivity", func(p *Profile) *float64 { return &p.ReduceSelectivity }, -1},
	{"input-record", func(p *Profile) *float64 { return &p.InputRecord }, 0},
	{"map-record", func(p *Profile) *float64 { return &p.MapRecord }, 0},
	{"output-record", func(p *Profile) *float64 { return &p.OutputRecord }, 0},
}

// ReadProfiles reads a file of profiles: a mapping with the single key
// "profiles", a list. Errors name the file and line.
func ReadProfiles(file string, in io.Reader) ([]Profile, error) {
	r := &reader{file: file}
	o := r.open(in, "list of profiles")
	if o == nil {
		return nil, r.err()
	}
	list := o.profiles(nil)
	o.end()
	if o.value["profiles"] == nil {
		r.fail(o.node, "no key \"profiles\"")
	}
	return list, r.err()
}

// profiles reads the key "profiles" and appends the known profiles of other
// apps.
func (o *object) profiles(known []Profile) []Profile {
	var own []Profile
	for _, n := range o.list("profiles") {
		p, ok := o.r.profile(n)
		if ok && find(own, p.App) != nil {
			o.r.fail(n, "a second profile of app %q", p.App)
		}
		own = append(own, p)
	}
	for _, p := range known {
		if find(own, p.App) == nil {
			own = append(own, p)
		}
	}
	return own
}

// find returns the profile of an app, or nil.
func find(list []Profile, app string) *Profile {
	for i := range list {
		if list[i].App == app {
			return &list[i]
		}
	}
	return nil
}

// profile reads one profile; it returns false if n is not a mapping.
func (r *reader) profile(n *yaml.Node) (Profile, bool) {
	o := r.object(n, "profile")
	if o == nil {
		return Profile{}, false
	}
	p := Profile{App: field(o, "app", "", nonEmpty), Source: o.text("source")}
	if o.value["app"] == nil {
		r.fail(n, "profile: has no app")
	}
	for _, c := range costs {
		// A missing required cost is -1 for a moment: the error below ends the reading.
		*c.of(&p) = field(o, c.key, c.without, number(0, 1e9))
		if o.value[c.key] == nil && c.without < 0 {
			r.fail(n, "profile of %q: has no %s", p.App, c.key)
		}
	}
	p.Hints = o.hints()
	o.end()
	return p, true
}

// hints reads the key "hints": {map: …, reduce: …}, where each is [cpu, memory, disk, network] or a mapping with these keys.
// Ratings go from 1 to 10; 0 means unknown.
func (o *object) hints() (hints [job.Kinds]job.Ratings) {
	n := o.get("hints")
	if n == nil {
		return hints
	}
	in := o.r.object(n, o.what+": hints")
	if in == nil {
		return hints
	}
	in.kind = "hints"
	for k := range job.Kind(job.Kinds) {
		key := k.String()
		// Two forms, because people write the names and WriteProfiles the list.
		n := in.get(key)
		if n == nil {
			continue
		}
		p := &hints[k]
		ratings := []*uint8{&p.CPU, &p.Memory, &p.Disk, &p.Network}
		if n.Kind == yaml.MappingNode {
			each := o.r.object(n, in.what+": "+key)
			each.kind = "ratings"
			// The order of the learning scheduler's Figure 7.
			for i, resource := range []string{"cpu", "memory", "disk", "network"} {
				*ratings[i] = uint8(field(each, resource, 0, whole(0, 10)))
			}
			each.end()
			continue
		}
		list := in.list(key)
		if len(list) != len(ratings) {
			o.r.fail(n, "%s: %s: should be [cpu, memory, disk, network]", in.what, key)
			continue
		}
		for i, c := range list {
			*ratings[i] = uint8(scalar(o.r, c, in.what+": "+key, whole(0, 10)))
		}
	}
	in.end()
	return hints
}

// WriteProfiles writes a file from which ReadProfiles reads equal profiles.
func WriteProfiles(out io.Writer, list []Profile) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "# Costs of apps. CPU in core-seconds, for each task (-start) or MB; records in bytes.")
	fmt.Fprintln(w, "profiles:")
	for i := range list {
		p := &list[i]
		fmt.Fprintf(w, "  - app: %s\n", quote(p.App))
		if p.Source != "" {
			fmt.Fprintf(w, "    source: %s\n", quote(p.Source))
		}
		for _, c := range costs {
			fmt.Fprintf(w, "    %s: %s\n", c.key, strconv.FormatFloat(*c.of(p), 'g', -1, 64))
		}
		if text := hintsText(&p.Hints); text != "" {
			fmt.Fprintf(w, "    hints: %s\n", text)
		}
	}
	return w.Flush()
}

// hintsText returns hints in the YAML that object.hints reads, or "" if there
// are none.
func hintsText(h *[job.Kinds]job.Ratings) string {
	if *h == ([job.Kinds]job.Ratings{}) {
		return ""
	}
	m, r := &h[job.Map], &h[job.Reduce]
	return fmt.Sprintf("{map: [%d, %d, %d, %d], reduce: [%d, %d, %d, %d]}",
		m.CPU, m.Memory, m.Disk, m.Network, r.CPU, r.Memory, r.Disk, r.Network)
}
