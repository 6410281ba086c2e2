// Package learning predicts whether one more task would overload a node, and
// learns from the outcomes of earlier predictions.
//
// Source: Dhok and Varma, "Using Pattern Classification for Task Assignment in
// MapReduce". Nodes have no fixed number of slots. At each heartbeat a classifier
// predicts for each job's next map and next reduce whether it is good or bad for
// the node. The best good candidate starts. The node's next heartbeat shows
// whether the node is overloaded, which is the label that the classifier learns
// from ("automatic supervision"):
//
//	heartbeat:  label the last decision → train → predict → decide
//
// The files, from the bottom up:
//
//	features.go                features of jobs and nodes, as bins and numbers
//	bayes.go perceptron.go     the two classifiers
//	rule.go                    when a node is overloaded
//	hints.go                   the hints assumed for jobs that declare none
//	utility.go                 the value of a job's task
//	config.go                  parameters
//	learner.go log.go          decisions, their labels, and the log
//	state.go                   saving and loading
//	overload.go                the slots part
//	order.go orderconfig.go    the order by expected utility; groups.go, jobs.go and worth.go keep its candidates
//
// The package is pure. It allocates nothing in steady state except for new nodes
// and the log.
package learning
