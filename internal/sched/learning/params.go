package learning

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/sched"
)

// common describes the settings that both classifiers have.
func common() []sched.Param {
	return []sched.Param{
		{Name: "target", Default: "1", Help: "The limit of a node's one-minute load average per processor, the paper's ρ: above " +
			"it the node is overloaded. 0 does not look at the load average."},
		{Name: "cpu-limit", Default: "0", Help: "The same for the busy fraction of the processors, 0 to 1; 0 does not look at it."},
		{Name: "memory-limit", Default: "0", Help: "The same for the used fraction of memory, 0 to 1; 0 does not look at it."},
		{Name: "disk-limit", Default: "0", Help: "The same for bytes read and written a second; 0 does not look at them."},
		{Name: "network-limit", Default: "0", Help: "The same for bytes received and sent a second; 0 does not look at them."},
		{Name: "all-limits", Default: "false", Help: "Whether a node is overloaded only when it is above all limits that are " +
			"looked at (true) or above any of them (false)."},
		{Name: "tasks-per-heartbeat", Default: "1", Help: "How many tasks a heartbeat launches at most, each decided on for itself. " +
			"With 1, the paper's, short tasks cannot keep a node busy whose heartbeats are far apart."},
		{Name: "refill", Default: "false", Help: "Whether a heartbeat also launches as many tasks as have ended on the node since the last " +
			"one. For tasks shorter than a dozen heartbeats; not in the paper."},
		{Name: "judge-window", Default: "1", Help: "For how many heartbeats a node must stay below its limits for a decision to have " +
			"been right. 1 is the paper's; 6 to 12 keep nodes below the target, since a load average of a minute follows slowly."},
		{Name: "train-withheld", Default: TrainAll, Help: "Which decisions to launch nothing are learned from: all, false_negatives " +
			"(those that no overload followed) or none (then set idle-escape, or all work can stop for good)."},
		{Name: "hard-gate", Default: "false", Help: "Whether an overloaded node gets nothing, whatever the classifier says."},
		{Name: "idle-escape", Default: "false", Help: "Whether a node without tasks and below its limits gets one though all are called bad."},
		{Name: "patience", Default: "12", Help: "After how many refusals in a row a node that runs nothing gets a task all the same: what loads " +
			"it are not our tasks. 0 is never, as in the paper."},
		{Name: "rank", Default: RankPosterior, Help: "What the utility is multiplied by: posterior (the probability of being good) or " +
			"joint (the paper's shortened product, which favours common features)."},
		{Name: "features", Default: DefaultFeatures, Help: "What the classifier looks at, of " + strings.Join(featureNames(), ", ") +
			". cores and speed are for nodes that are not alike; the first four are the job's own ratings."},
		{Name: "max-tasks", Default: "100", Help: "A safety cap on the maps, and on the reduces, that a node runs at once."},
		{Name: "log-size", Default: "65536", Help: "How many judged decisions are kept, of some 200 bytes each, to learn anew from when " +
			"the limits change; older ones are forgotten then. 0 keeps none."},
	}
}

// BayesParams describes the settings of slots by naive Bayes.
func BayesParams() []sched.Param {
	return append([]sched.Param{
		{Name: "smoothing", Default: Laplace, Help: "How probable a rarely seen feature is: laplace (one more than was counted) or " +
			"histogram (as counted, unseen as once; cautious at first)."},
	}, common()...)
}

// PerceptronParams describes the settings of slots by a perceptron.
func PerceptronParams() []sched.Param {
	return append([]sched.Param{
		{Name: "bias", Default: "0.2", Help: "The constant added to the weighted features. Above 0 everything is good at first; " +
			"otherwise everything is bad until withheld decisions have taught better."},
		{Name: "learning-rate", Default: "1", Help: "How far a mistake moves the weights, the paper's α; positive."},
	}, common()...)
}

// Profiles are sets of settings with names. "slow" shows the paper's learning
// phase, which the default is too quick for.
var Profiles = []sched.Profile{
	{Name: "slow", Summary: "starts cautiously and fills nodes over a quarter of an hour, as the paper's figures show; for showing, not for targets above 1",
		Set: map[string]string{"smoothing": Histogram, "train-withheld": TrainFalseNegatives,
			"features": "cpu,memory,disk,network,load_fine,busy,tasks,free_memory"}},
	{Name: "steady", Summary: "judges a decision by the next 12 heartbeats: fewer overloads, slightly less load (not in the paper)",
		Set: map[string]string{"judge-window": "12"}},
	{Name: "quick", Summary: "up to 4 tasks a heartbeat and one for each that has ended, for tasks of seconds (not in the paper)",
		Set: map[string]string{"tasks-per-heartbeat": "4", "refill": "true"}},
}

// ReadBayes reads the settings that BayesParams describes.
func ReadBayes(k *sched.Kit) (Config, error) {
	s := settings{kit: k}
	cfg := s.common(NaiveBayes)
	cfg.Smoothing = setting(&s, "smoothing", word)
	return cfg, s.check(&cfg)
}

// ReadPerceptron reads the settings that PerceptronParams describes.
func ReadPerceptron(k *sched.Kit) (Config, error) {
	s := settings{kit: k}
	cfg := s.common(PerceptronAlg)
	cfg.Bias = setting(&s, "bias", number)
	cfg.Rate = setting(&s, "learning-rate", number)
	return cfg, s.check(&cfg)
}

// settings reads a kit and keeps the first error.
type settings struct {
	kit *sched.Kit
	err error
}

func setting[T any](s *settings, name string, parse func(string) (T, error)) T {
	v, err := sched.Setting(s.kit, name, parse)
	if s.err == nil {
		s.err = err
	}
	return v
}

func (s *settings) check(cfg *Config) error {
	if s.err != nil {
		return s.err
	}
	return cfg.Check()
}

func (s *settings) common(classifier string) Config {
	cfg := DefaultConfig()
	cfg.Classifier = classifier
	cfg.Rule = Rule{
		Target: setting(s, "target", number),
		CPU:    setting(s, "cpu-limit", number), Memory: setting(s, "memory-limit", number),
		Disk: setting(s, "disk-limit", number), Network: setting(s, "network-limit", number),
		All: setting(s, "all-limits", strconv.ParseBool),
	}
	cfg.PerHeartbeat = setting(s, "tasks-per-heartbeat", strconv.Atoi)
	cfg.Refill = setting(s, "refill", strconv.ParseBool)
	cfg.Window = setting(s, "judge-window", strconv.Atoi)
	cfg.Withheld = setting(s, "train-withheld", word)
	cfg.HardGate = setting(s, "hard-gate", strconv.ParseBool)
	cfg.IdleEscape = setting(s, "idle-escape", strconv.ParseBool)
	cfg.Patience = setting(s, "patience", strconv.Atoi)
	cfg.Rank = setting(s, "rank", word)
	cfg.Space = setting(s, "features", ParseFeatures)
	cfg.MaxTasks = setting(s, "max-tasks", strconv.Atoi)
	cfg.LogSize = setting(s, "log-size", strconv.Atoi)
	return cfg
}

// word takes a value as it is; Config.Check knows which there are.
func word(v string) (string, error) { return v, nil }

func number(v string) (float64, error) {
	x, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("must be a number")
	}
	return x, nil
}

// utilities are the names of all factors of a utility.
var utilities = []string{Constant, FIFO, Gate, Budget, Dedicated, DedicatedLiteral, Revenue, Priority}

// ParseUtility reads a product of utilities such as "fifo*budget".
func ParseUtility(v string) ([]string, error) {
	var factors []string
	for _, f := range strings.Split(v, "*") {
		f = strings.TrimSpace(f)
		if !slices.Contains(utilities, f) {
			return nil, fmt.Errorf("no utility %q; there are %s", f, strings.Join(utilities, ", "))
		}
		factors = append(factors, f)
	}
	return factors, nil
}

// Utilities returns the names of all factors.
func Utilities() []string { return slices.Clone(utilities) }
