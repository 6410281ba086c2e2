package learning

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
)

// The values of Config.Classifier.
const (
	NaiveBayes    = "naive_bayes"
	PerceptronAlg = "perceptron"
)

// The values of Config.Withheld: which decisions not to launch a task become
// training examples.
const (
	TrainAll            = "all"             // every decision
	TrainFalseNegatives = "false_negatives" // decisions that no overload followed
	TrainNone           = "none"            // no decision; see Config.IdleEscape
)

// The values of Config.Rank: what the utility of a candidate is multiplied by.
const (
	RankPosterior = "posterior" // P(good|F), Eq. 1
	RankJoint     = "joint"     // P(good)·∏P(F_i|good), the paper's shortened product
)

// Config holds the parameters of a Learner: how it predicts, decides and learns.
// "Good" and "bad" are the paper's words for a task that does not, or does,
// overload the node that runs it.
type Config struct {
	// Classifier is NaiveBayes or PerceptronAlg. The part sets it, not the user.
	Classifier string
	// Smoothing is Laplace or Histogram. Only naive Bayes uses it.
	Smoothing string
	// Bias is the constant b of the perceptron. If it is 0 or negative, the
	// untrained perceptron calls every candidate bad, and only training on
	// withheld decisions can change that.
	Bias float64
	// Rate is the perceptron's learning rate α. It is positive.
	Rate float64
	// Space lists the features in use. It has at least one.
	Space Space
	// Rule decides whether a node was overloaded after a decision.
	Rule Rule
	// evaluate is the function of Rule.Evaluator; nil if it names none.
	evaluate func(sched.NodeState) bool
	// PerHeartbeat is the paper's k: the most tasks that one heartbeat
	// launches. Each launch is a separate decision.
	PerHeartbeat int
	// Refill lets a heartbeat also launch one task for each that has ended on
	// the node since the previous heartbeat, since those have made room. Without
	// it a node starts at most PerHeartbeat tasks per heartbeat interval, however
	// short they are. Refill is not in the paper, whose tasks last for twelve
	// heartbeats.
	Refill bool
	// Window is the number of heartbeats for which a node must stay below its
	// limits for a launch to count as good, 1 in the paper. Larger windows are
	// not in the paper: the load average of a minute follows a new task slowly,
	// so the next heartbeat shows little of its effect.
	Window int
	// Withheld selects the withheld decisions to train on. With TrainNone, a
	// classifier that calls every candidate bad never changes its mind.
	Withheld string
	// HardGate gives no tasks to a node that is overloaded now, and makes no
	// decision there. The paper leaves that to the classifier.
	HardGate bool
	// IdleEscape launches a task on an idle node (see Idle) although every
	// candidate is called bad. It does so if the node's load is at most 0.8 of
	// the target, or was below the limits after three such refusals.
	IdleEscape bool
	// Patience is the number of successive refusals after which an idle node
	// gets a task although every candidate is called bad, even if it is overloaded: its load has other causes, which refusing tasks does not
	// remove. 0 means never, as in the paper, which has the cluster to itself.
	Patience int
	// Rank is RankPosterior or RankJoint.
	Rank string
	// MaxTasks bounds the running tasks of each kind on a node, for safety. AutoTasks
	// derives the bound from the node's slots; see TasksOn.
	MaxTasks int
	// Waiting is the most reduces of a node that wait for maps of their jobs; see
	// WaitingReduces. AutoTasks is the node's number of reduce slots, and AnyTasks
	// sets no limit. The load of a waiting reduce shows long after its decision has
	// been labelled, so the classifier cannot foresee it. Not in the paper.
	Waiting int
	// Early says when reduces may start; EarlyOwn counts the node's reduce slots. Not in
	// the paper.
	Early hadoop.Early
	// LogSize is the number of labelled decisions to keep. When the rule
	// changes, the classifier is trained again from them; older ones are lost.
	// 0 keeps none.
	LogSize int
}

// AutoTasks is the MaxTasks that follows the slots of a node.
const AutoTasks = -1

// AnyTasks is the Waiting that sets no limit.
const AnyTasks = -2

// tasksPerSlot is the bound of AutoTasks. An operator chooses a worker's slots so that
// their tasks fit into its memory. A few times as many tasks may still fit, but never a
// hundred on two slots.
const tasksPerSlot = 4

// mostTasks is the bound where the node is not known.
const mostTasks = 100

// maxTasks bounds the parameters max-tasks and tasks-per-heartbeat. It is the most slots that a node may
// have, and Learner.limit multiplies and adds the two.
const maxTasks = 1 << 20

// TasksOn returns the limit of running tasks of a kind on a node with this many slots of
// the kind.
func (c *Config) TasksOn(slots int) int {
	switch {
	// An operator who gives a node no slots of a kind means it, whatever the classifier predicts.
	case slots == 0:
		return 0
	case c.MaxTasks == AutoTasks:
		return tasksPerSlot * slots
	}
	return c.MaxTasks
}

// WaitingOn returns the limit of waiting reduces on a node with this many reduce slots.
func (c *Config) WaitingOn(slots int) int {
	switch c.Waiting {
	case AutoTasks:
		return slots
	case AnyTasks:
		return math.MaxInt
	}
	return c.Waiting
}

// bind declares the parameters that both classifiers share.
func (c *Config) bind() sched.Bindings {
	// No upper bound: how much load or how many bytes a second are too much depends on the machines.
	limit := sched.Float(0, math.Inf(1))
	return sched.Bindings{
		sched.Bind(&c.Rule.Target, limit, sched.Param{Name: "target", Default: "1", Tune: []string{"0.6", "0.8", "1", "1.25", "1.5"},
			Help: "The limit of a node's one-minute load average per processor, the paper's ρ. A node above it is overloaded. 0 ignores " +
				"the load average, and high values overload nodes."}),
		sched.Bind(&c.Rule.CPU, limit, sched.Param{Name: "cpu-limit", Default: "0",
			Help: "The limit of the busy fraction of a node's processors, 0 to 1; 0 ignores it."}),
		sched.Bind(&c.Rule.Memory, limit, sched.Param{Name: "memory-limit", Default: "0",
			Help: "The limit of the used fraction of a node's memory, 0 to 1; 0 ignores it."}),
		sched.Bind(&c.Rule.Disk, limit, sched.Param{Name: "disk-limit", Default: "0",
			Help: "The limit of the bytes per second that a node reads from and writes to its disks; 0 ignores them."}),
		sched.Bind(&c.Rule.Network, limit, sched.Param{Name: "network-limit", Default: "0",
			Help: "The limit of the bytes per second that a node receives and sends; 0 ignores them."}),
		sched.Bind(&c.Rule.All, sched.Bool(), sched.Param{Name: "all-limits", Default: "false",
			Help: "Whether a node is overloaded only if it is above all limits that are not 0 (true), or above any of them (false)."}),
		sched.Bind(&c.Rule.Evaluator, evaluatorNames, sched.Param{Name: "evaluator", Default: limits,
			Help: "What decides whether a node is overloaded: limits (the parameters above), or an evaluator by the name under which a program of yours has added it."}),
		sched.Bind(&c.PerHeartbeat, sched.Int(1, maxTasks), sched.Param{Name: "tasks-per-heartbeat", Default: "1", Tune: []string{"1", "2", "4"},
			Help: "The most tasks that one heartbeat launches; each is a decision of its own. With the paper's 1, tasks shorter than the " +
				"time between two heartbeats cannot keep a node busy."}),
		sched.Bind(&c.Refill, sched.Bool(), sched.Param{Name: "refill", Default: "false", Tune: []string{"false", "true"},
			Help: "Whether a heartbeat also launches one task for each that has ended on the node since the previous heartbeat. Use it " +
				"for tasks shorter than a dozen heartbeats. Not in the paper."}),
		sched.Bind(&c.Window, sched.Int(1, 1000), sched.Param{Name: "judge-window", Default: "1", Tune: []string{"1", "3", "10"},
			Help: "The number of heartbeats, at most 1000, for which a node must stay below its limits for a launch to count as good. 1 " +
				"is the paper's; 6 to 12 keep nodes below the target, because the load average of a minute follows slowly."}),
		sched.Bind(&c.Withheld, sched.Word(TrainAll, TrainFalseNegatives, TrainNone), sched.Param{Name: "train-withheld", Default: TrainAll,
			Help: "Which decisions to launch nothing become training examples: all, false_negatives (those that no overload followed) " +
				"or none (set idle-escape as well, or all work can stop for good)."}),
		sched.Bind(&c.HardGate, sched.Bool(), sched.Param{Name: "hard-gate", Default: "false",
			Help: "Whether an overloaded node gets no tasks, whatever the classifier predicts."}),
		sched.Bind(&c.IdleEscape, sched.Bool(), sched.Param{Name: "idle-escape", Default: "false",
			Help: "Whether a node that runs nothing but waiting reduces and is below its limits gets a task although every candidate is called bad."}),
		sched.Bind(&c.Patience, sched.Int(0, math.MaxInt), sched.Param{Name: "patience", Default: "12", Tune: []string{"3", "6", "12", "24"},
			Help: "The number of successive refusals after which a node that runs nothing but waiting reduces gets a task anyway, because " +
				"its load has other causes. 0 means never, as in the paper."}),
		sched.Bind(&c.Rank, sched.Word(RankPosterior, RankJoint), sched.Param{Name: "rank", Default: RankPosterior,
			Help: "What the utility of a candidate is multiplied by: posterior (the probability of being good) or joint (the paper's " +
				"shortened product, which favours common features)."}),
		sched.Bind(&c.Space, featureValues, sched.Param{Name: "features", Default: DefaultFeatures,
			Help: "The features that the classifier uses, of " + strings.Join(featureNames(), ", ") + ". The first four are the job's " +
				"resource hints. Use cores and speed on clusters of unequal nodes."}),
		sched.Bind(&c.MaxTasks, sched.Or("auto", AutoTasks, sched.Int(1, maxTasks)), sched.Param{Name: "max-tasks", Default: "auto",
			Help: "The most maps, and the most reduces, that a node runs at once, for safety. auto is four times the node's slots of the " +
				"kind: its memory is divided by them."}),
		hadoop.BindEarly(&c.Early, "on"),
		sched.Bind(&c.Waiting, sched.Or("any", AnyTasks, sched.Or("auto", AutoTasks, sched.Int(0, math.MaxInt))), sched.Param{
			Name: "waiting-reduces", Default: "auto",
			Help: "The most reduces of a node that wait for maps of their jobs: auto (its reduce slots), a number, or any. Waiting reduces " +
				"cause no load that the classifier could learn from. 0 starts reduces only after their job's maps."}),
		sched.Bind(&c.LogSize, sched.Int(0, 1<<24), sched.Param{Name: "log-size", Default: "65536",
			Help: "The number of decisions, of some 260 bytes each, that are kept to train again from when the limits change. 0 keeps none. slotwise sim --out writes them as a table."}),
	}
}

// bindBayes declares the parameters of naive Bayes.
func (c *Config) bindBayes() sched.Bindings {
	return append(sched.Bindings{
		sched.Bind(&c.Smoothing, sched.Word(Laplace, Histogram), sched.Param{Name: "smoothing", Default: Laplace,
			Help: "How probable a rarely seen feature is: laplace (one is added to each count) or histogram (as counted, with unseen " +
				"values counted once; cautious at first)."}),
	}, c.bind()...)
}

// bindPerceptron declares the parameters of the perceptron.
func (c *Config) bindPerceptron() sched.Bindings {
	return append(sched.Bindings{
		sched.Bind(&c.Bias, sched.Float(math.Inf(-1), math.Inf(1)), sched.Param{Name: "bias", Default: "0.2",
			Help: "The constant added to the weighted features. Above 0 the untrained perceptron calls every candidate good; otherwise " +
				"it calls all bad until withheld decisions have trained it."}),
		sched.Bind(&c.Rate, sched.PositiveFloat(), sched.Param{Name: "learning-rate", Default: "1", Tune: []string{"0.1", "0.3", "1", "3"},
			Help: "How far a mistake moves the weights, the paper's α."}),
	}, c.bind()...)
}

// BayesParams documents the parameters of naive Bayes.
func BayesParams() []sched.Param { return new(Config).bindBayes().Params() }

// PerceptronParams documents the parameters of the perceptron.
func PerceptronParams() []sched.Param { return new(Config).bindPerceptron().Params() }

// Profiles are named sets of parameter values. "slow" shows the learning phase
// of the paper's figures, for which the defaults are too quick.
var Profiles = []sched.Profile{
	{Name: "slow", Summary: "starts cautiously and fills nodes over a quarter of an hour, as the paper's figures show; for showing, not for targets above 1",
		Set: map[string]string{"smoothing": Histogram, "train-withheld": TrainFalseNegatives,
			"features": "cpu,memory,disk,network,load_fine,busy,tasks,free_memory"}},
	{Name: "steady", Summary: "judges a decision by the next 12 heartbeats: fewer overloads, slightly less load (not in the paper)",
		Set: map[string]string{"judge-window": "12"}},
	{Name: "quick", Summary: "up to 4 tasks a heartbeat and one for each that has ended, for tasks of seconds (not in the paper)",
		Set: map[string]string{"tasks-per-heartbeat": "4", "refill": "true"}},
}

// ReadBayes returns the configuration of naive Bayes with the parameters that
// the user has set.
func ReadBayes(k *sched.Kit) (Config, error) {
	cfg := Config{Classifier: NaiveBayes}
	return cfg, cfg.read(k, cfg.bindBayes())
}

// ReadPerceptron returns the configuration of the perceptron with the parameters
// that the user has set.
func ReadPerceptron(k *sched.Kit) (Config, error) {
	cfg := Config{Classifier: PerceptronAlg}
	return cfg, cfg.read(k, cfg.bindPerceptron())
}

// limits is the value of the parameter "evaluator" that names no function of a program.
const limits = "limits"

// evaluatorNames are the values of the parameter "evaluator". Config.read finds the function.
var evaluatorNames = sched.Values[string]{
	Accepts: "limits, or the name of an evaluator of your program",
	Parse: func(v string) (string, error) {
		if v == "" || v == limits {
			return "", nil
		}
		return v, nil
	},
	Print: func(name string) string { return cmp.Or(name, limits) },
}

// read sets the bound fields and finds the evaluator.
func (c *Config) read(k *sched.Kit, b sched.Bindings) error {
	if err := k.Read(b); err != nil {
		return err
	}
	// A function cannot be in saved state or on a command line, so the rule names it and each start finds
	// it again.
	if name := c.Rule.Evaluator; name != "" {
		e, ok := k.FindEvaluator(name)
		if !ok {
			return fmt.Errorf("there is no evaluator %q; a program adds evaluators in its sched.Table", name)
		}
		c.evaluate = e.Overloaded
	}
	return c.Rule.Check()
}

// overloaded reports whether a node in the given state is overloaded.
func (c *Config) overloaded(s State) bool {
	if c.evaluate != nil {
		return c.evaluate(sched.NodeState(s))
	}
	return c.Rule.Overloaded(s)
}

// DefaultConfig returns the defaults of all parameters, for naive Bayes.
func DefaultConfig() Config {
	c := Config{Classifier: NaiveBayes}
	if err := errors.Join(c.bindBayes().Set(nil), c.bindPerceptron().Set(nil)); err != nil {
		panic(err) // a default is wrong; the registry reports that as an error
	}
	return c
}

// newClassifier returns the untrained classifier.
func (c *Config) newClassifier() Classifier {
	if c.Classifier == PerceptronAlg {
		return NewPerceptron(len(c.Space), c.Bias, c.Rate)
	}
	return NewBayes(c.Space.Sizes(), c.Smoothing)
}

// identity describes the parameters that determine what the classifier's counts
// or weights mean. Saved state is loaded only if it has the same identity.
func (c *Config) identity() string {
	if c.Classifier == PerceptronAlg {
		return fmt.Sprintf("%s rate=%v bias=%v features=%v", c.Classifier, c.Rate, c.Bias, c.Space)
	}
	return fmt.Sprintf("%s smoothing=%s features=%v", c.Classifier, c.Smoothing, c.Space)
}
