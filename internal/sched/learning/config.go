package learning

import (
	"errors"
	"fmt"
)

// The values of Config.Classifier.
const (
	NaiveBayes    = "naive_bayes"
	PerceptronAlg = "perceptron"
)

// The values of Config.Withheld: which decisions against a task are learned
// from.
const (
	TrainAll            = "all"             // each
	TrainFalseNegatives = "false_negatives" // those not followed by an overload
	TrainNone           = "none"            // none; see Config.IdleEscape
)

// The values of Config.Rank: what utility is multiplied by.
const (
	RankPosterior = "posterior" // P(good|F), Eq. 1
	RankJoint     = "joint"     // P(good)·∏P(F_i|good), the paper's shortened product
)

// Config is how a Learner predicts, decides and learns.
type Config struct {
	// Classifier is NaiveBayes or PerceptronAlg.
	Classifier string
	// Smoothing is Laplace or Histogram, for naive Bayes.
	Smoothing string
	// Bias is the perceptron's constant b. With 0 or less everything is bad
	// at first, and only what was withheld can teach it otherwise.
	Bias float64
	// Rate is the perceptron's learning rate α, positive.
	Rate float64
	// Space is the features in use, at least one.
	Space Space
	// Rule labels what followed a decision.
	Rule Rule
	// PerHeartbeat is the paper's k: how many tasks a heartbeat launches at
	// most. Each is a decision of its own.
	PerHeartbeat int
	// Refill lets a heartbeat also launch as many tasks as have ended on the
	// node since the last one: they leave room for others like them. Without
	// it no node starts more than PerHeartbeat tasks in the time between two
	// heartbeats, however short they are. It is ours; the paper's tasks last
	// for twelve heartbeats.
	Refill bool
	// Window is for how many heartbeats a node must stay below its limits for
	// a decision to have been right. The paper's is 1. More is ours: the load
	// average of a minute follows a task slowly, and the next heartbeat shows
	// little of it.
	Window int
	// Withheld says which decisions against all candidates are learned from.
	// Without TrainAll or TrainFalseNegatives a classifier that has come to
	// call everything bad never learns otherwise.
	Withheld string
	// HardGate gives nothing to a node that is overloaded now, and decides
	// nothing there. The paper leaves that to the classifier.
	HardGate bool
	// IdleEscape gives a task to a node that runs none, though all are called
	// bad, when its load is at most 0.8 of the target or was below its limits
	// after three such refusals.
	IdleEscape bool
	// Patience is after how many successive refusals a node that runs nothing
	// gets a task though all are called bad, and though it is overloaded: then
	// it is not our tasks that load it, and refusing them changes nothing. The
	// paper has a cluster to itself, and never does it; nor does 0.
	Patience int
	// Rank is RankPosterior or RankJoint.
	Rank string
	// MaxTasks is a safety cap on the tasks of each kind that a node runs.
	MaxTasks int
	// LogSize is how many judged decisions are kept to learn again from when
	// the rule changes; older ones are forgotten then. 0 keeps none.
	LogSize int
}

// DefaultConfig is the recommended reading of the paper.
func DefaultConfig() Config {
	space, err := ParseFeatures(DefaultFeatures)
	if err != nil {
		panic(err) // the constant is wrong
	}
	return Config{
		Classifier: NaiveBayes, Smoothing: Laplace, Bias: 0.2, Rate: 1, Space: space, Rule: Rule{Target: 1},
		PerHeartbeat: 1, Window: 1, Withheld: TrainAll, Patience: 12, Rank: RankPosterior, MaxTasks: 100, LogSize: 1 << 16,
	}
}

// Check says what is wrong with a configuration: all of it, or nil.
func (c *Config) Check() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	oneOf := func(name, v string, known ...string) {
		for _, k := range known {
			if v == k {
				return
			}
		}
		want(false, "%s %q: must be one of %v", name, v, known)
	}
	oneOf("classifier", c.Classifier, NaiveBayes, PerceptronAlg)
	oneOf("smoothing", c.Smoothing, Laplace, Histogram)
	oneOf("withheld decisions to learn from", c.Withheld, TrainAll, TrainFalseNegatives, TrainNone)
	oneOf("rank", c.Rank, RankPosterior, RankJoint)
	want(c.Rate > 0, "learning rate %v must be positive", c.Rate)
	want(c.Bias == c.Bias, "the bias is not a number")
	want(len(c.Space) > 0, "no feature is in use")
	want(c.PerHeartbeat > 0, "tasks per heartbeat: %d must be positive", c.PerHeartbeat)
	want(c.Window > 0 && c.Window <= 1000, "heartbeats to judge by: %d must be from 1 to 1000", c.Window)
	want(c.Patience >= 0, "patience %d must not be negative", c.Patience)
	want(c.MaxTasks > 0, "tasks per node: %d must be positive", c.MaxTasks)
	want(c.LogSize >= 0 && c.LogSize <= 1<<24, "size of the log: %d must be from 0 to %d", c.LogSize, 1<<24)
	errs = append(errs, c.Rule.Check())
	return errors.Join(errs...)
}

func (c *Config) classifier() Classifier {
	if c.Classifier == PerceptronAlg {
		return NewPerceptron(len(c.Space), c.Bias, c.Rate)
	}
	return NewBayes(c.Space.Sizes(), c.Smoothing)
}

// identity says what must be equal for counts or weights to mean the same.
func (c *Config) identity() string {
	if c.Classifier == PerceptronAlg {
		return fmt.Sprintf("%s rate=%v bias=%v features=%v", c.Classifier, c.Rate, c.Bias, c.Space)
	}
	return fmt.Sprintf("%s smoothing=%s features=%v", c.Classifier, c.Smoothing, c.Space)
}
