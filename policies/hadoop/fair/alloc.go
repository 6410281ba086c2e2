package fair

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// NoLimit is the count of slots or jobs that means "no limit".
const NoLimit = math.MaxInt

// Never is the timeout that does not expire.
const Never = time.Duration(math.MaxInt64)

// Allocations hold the limits and timeouts of pools and users: the contents of
// Hadoop's fair-scheduler.xml. Maps may be nil.
type Allocations struct {
	Pools map[string]PoolLimits
	// UserJobs limits the number of running jobs by user.
	UserJobs map[string]int
	// MaxUserJobs and MaxPoolJobs limit the running jobs of users and pools
	// that have no limit of their own.
	MaxUserJobs, MaxPoolJobs int
	// FairTimeout is the time below half its fair share after which a pool may
	// preempt tasks of others. MinTimeout is the same for the minimum share,
	// for pools without a timeout of their own.
	FairTimeout, MinTimeout time.Duration
	// FIFO orders jobs by priority and submission in pools without a mode of
	// their own.
	FIFO bool
}

// PoolLimits hold the limits of one pool. Start from Allocations.Pool, which
// fills in the defaults.
type PoolLimits struct {
	Min [job.Kinds]int // slots guaranteed while there is demand
	Max [job.Kinds]int // slots at most; NoLimit if unlimited
	// MaxJobs is the number of its jobs that run at once; the others wait.
	MaxJobs int
	// Weight is the pool's part of the slots above the minimum shares. It is
	// above 0.
	Weight     float64
	MinTimeout time.Duration
	FIFO       bool
}

// NewAllocations returns allocations without limits, timeouts or named pools.
func NewAllocations() Allocations {
	return Allocations{MaxUserJobs: NoLimit, MaxPoolJobs: NoLimit, FairTimeout: Never, MinTimeout: Never}
}

// Pool returns the limits of a pool, and the defaults for a pool that is not
// named.
func (a *Allocations) Pool(name string) PoolLimits {
	if p, ok := a.Pools[name]; ok {
		return p
	}
	return PoolLimits{Max: [job.Kinds]int{NoLimit, NoLimit}, MaxJobs: a.MaxPoolJobs, Weight: 1,
		MinTimeout: a.MinTimeout, FIFO: a.FIFO}
}

// userJobs returns the limit on a user's running jobs.
func (a *Allocations) userJobs(user string) int {
	if n, ok := a.UserJobs[user]; ok {
		return n
	}
	return a.MaxUserJobs
}

// ErrUnknown is the error, wrapped, for a setting that Hadoop does not have.
var ErrUnknown = errors.New("unknown setting")

// Set changes a default by its name in fair-scheduler.xml. Pools copy the
// defaults when they are first named, so set the defaults before.
func (a *Allocations) Set(name, value string) (err error) {
	switch name {
	case "userMaxJobsDefault":
		a.MaxUserJobs, err = count(value)
	case "poolMaxJobsDefault":
		a.MaxPoolJobs, err = count(value)
	case "fairSharePreemptionTimeout":
		a.FairTimeout, err = seconds(value)
	case "defaultMinSharePreemptionTimeout":
		a.MinTimeout, err = seconds(value)
	case "defaultPoolSchedulingMode":
		a.FIFO, err = mode(value)
	default:
		return fmt.Errorf("%w %q", ErrUnknown, name)
	}
	return wrap(name, err)
}

// SetPool changes a limit of a pool by its name in fair-scheduler.xml.
func (a *Allocations) SetPool(pool, name, value string) (err error) {
	// The pool so far, or one with the defaults as they stand now: hence ParseAllocations reads the
	// defaults first.
	p := a.Pool(pool)
	switch name {
	case "minMaps":
		p.Min[job.Map], err = count(value)
	case "minReduces":
		p.Min[job.Reduce], err = count(value)
	case "maxMaps":
		p.Max[job.Map], err = count(value)
	case "maxReduces":
		p.Max[job.Reduce], err = count(value)
	case "maxRunningJobs":
		p.MaxJobs, err = count(value)
	case "weight":
		p.Weight, err = weight(value)
	case "minSharePreemptionTimeout":
		p.MinTimeout, err = seconds(value)
	case "schedulingMode":
		p.FIFO, err = mode(value)
	default:
		return fmt.Errorf("%w %q", ErrUnknown, name)
	}
	// A bad value leaves the pool unchanged.
	if err == nil {
		a.AddPool(pool, p)
	}
	return wrap(name, err)
}

// AddPool sets all limits of a pool.
func (a *Allocations) AddPool(name string, p PoolLimits) {
	if a.Pools == nil {
		a.Pools = make(map[string]PoolLimits)
	}
	a.Pools[name] = p
}

// SetUser changes a limit of a user by its name in fair-scheduler.xml.
func (a *Allocations) SetUser(user, name, value string) error {
	if name != "maxRunningJobs" {
		return fmt.Errorf("%w %q", ErrUnknown, name)
	}
	n, err := count(value)
	if err != nil {
		return wrap(name, err)
	}
	if a.UserJobs == nil {
		a.UserJobs = make(map[string]int)
	}
	a.UserJobs[user] = n
	return nil
}

// ParseAllocations parses the value of the parameter "pools". It reads the
// defaults before the pools, in whatever order the text has them.
func ParseAllocations(s string) (Allocations, error) {
	a := NewAllocations()
	var errs []error
	var later [][]string
	for _, entry := range strings.Split(s, ";") {
		f := strings.Fields(entry)
		switch {
		case len(f) == 0:
		// A pool copies the defaults when it is first named.
		case f[0] == "pool" || f[0] == "user":
			later = append(later, f)
		default:
			errs = append(errs, each(f, a.Set))
		}
	}
	for _, f := range later {
		errs = append(errs, a.parseNamed(f))
	}
	return a, errors.Join(errs...)
}

// allocationValues are the values of the parameter "pools".
var allocationValues = sched.Values[Allocations]{
	Accepts: "pools, users and timeouts such as pool p1 minMaps=2 weight=3; user ann maxRunningJobs=1",
	Parse:   ParseAllocations,
	Print:   func(a Allocations) string { return a.String() },
}

// String returns the allocations in the form that ParseAllocations reads, with
// pools and users in alphabetical order. Values that limit nothing are left out.
func (a *Allocations) String() string {
	var entries []string
	add := func(words ...string) {
		if words = slices.DeleteFunc(words, func(w string) bool { return w == "" }); len(words) > 0 {
			entries = append(entries, strings.Join(words, " "))
		}
	}
	// The defaults first: ParseAllocations does not need it, but a person who reads the text does.
	add(limitWord("userMaxJobsDefault", a.MaxUserJobs))
	add(limitWord("poolMaxJobsDefault", a.MaxPoolJobs))
	add(timeWord("fairSharePreemptionTimeout", a.FairTimeout, Never))
	add(timeWord("defaultMinSharePreemptionTimeout", a.MinTimeout, Never))
	if a.FIFO {
		add("defaultPoolSchedulingMode=fifo")
	}
	for _, name := range slices.Sorted(maps.Keys(a.UserJobs)) {
		add("user", name, "maxRunningJobs="+strconv.Itoa(a.UserJobs[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(a.Pools)) {
		p := a.Pools[name]
		// A pool copies the defaults when it is first named, and ParseAllocations reads the
		// defaults first. So only what differs from them is written.
		mode, jobs := "", ""
		if p.FIFO != a.FIFO {
			mode = "schedulingMode=" + modeName(p.FIFO)
		}
		if p.MaxJobs != a.MaxPoolJobs {
			jobs = "maxRunningJobs=" + strconv.Itoa(p.MaxJobs)
		}
		add("pool", name, countWord("minMaps", p.Min[job.Map], 0), countWord("minReduces", p.Min[job.Reduce], 0),
			limitWord("maxMaps", p.Max[job.Map]), limitWord("maxReduces", p.Max[job.Reduce]), jobs,
			weightWord(p.Weight), timeWord("minSharePreemptionTimeout", p.MinTimeout, a.MinTimeout), mode)
	}
	return strings.Join(entries, "; ")
}

// countWord returns name=n, or "" if n is the default.
func countWord(name string, n, byDefault int) string {
	if n == byDefault {
		return ""
	}
	return name + "=" + strconv.Itoa(n)
}

func limitWord(name string, n int) string { return countWord(name, n, NoLimit) }

// weightWord returns weight=w, or "" for 1.
func weightWord(w float64) string {
	if w == 1 {
		return ""
	}
	return "weight=" + strconv.FormatFloat(w, 'g', -1, 64)
}

// timeWord returns name=seconds, or "" if d is the default.
func timeWord(name string, d, byDefault time.Duration) string {
	if d == byDefault {
		return ""
	}
	n := int64(d / time.Second)
	if d == Never {
		n++ // more seconds than a duration holds, which seconds reads as Never
	}
	return name + "=" + strconv.FormatInt(n, 10)
}

func modeName(fifo bool) string {
	if fifo {
		return "fifo"
	}
	return "fair"
}

// parseNamed parses an entry for a pool or a user, split into words.
func (a *Allocations) parseNamed(f []string) error {
	if len(f) < 2 || strings.Contains(f[1], "=") {
		return fmt.Errorf("%s: a name must follow", f[0])
	}
	// A pool without settings is named too: it then exists without jobs.
	set := a.SetUser
	if f[0] == "pool" {
		a.AddPool(f[1], a.Pool(f[1]))
		set = a.SetPool
	}
	return each(f[2:], func(name, value string) error { return set(f[1], name, value) })
}

// each calls set for words of the form name=value and joins the errors.
func each(words []string, set func(name, value string) error) error {
	var errs []error
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("%q: want name=value", w))
			continue
		}
		errs = append(errs, set(name, value))
	}
	return errors.Join(errs...)
}

// wrap adds the name of a setting to an error.
func wrap(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// count parses a number of slots or jobs.
func count(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a whole number of at least 0", s)
	}
	return n, nil
}

// seconds parses a time. More seconds than a duration holds mean Never.
func seconds(s string) (time.Duration, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number of seconds", s)
	}
	// Hadoop's default, which means never, is Long.MAX_VALUE. Multiplied it would overflow to a negative
	// time-out that expires at once.
	if n > int64(Never/time.Second) {
		return Never, nil
	}
	return time.Duration(n) * time.Second, nil
}

// weight parses a weight. It is a divisor, so it must be above 0 and finite.
func weight(s string) (float64, error) {
	w, err := strconv.ParseFloat(s, 64)
	if err != nil || !(w > 0) || math.IsInf(w, 0) {
		return 0, fmt.Errorf("%q is not a number above 0", s)
	}
	return w, nil
}

// mode parses a scheduling mode.
func mode(s string) (fifo bool, err error) {
	switch strings.ToLower(s) {
	case "fifo":
		return true, nil
	case "fair":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither fair nor fifo", s)
}
