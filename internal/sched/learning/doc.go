// Package learning predicts whether one more task would overload a node, and
// learns from what became of earlier predictions.
//
// Source: Dhok and Varma, "Using Pattern Classification for Task Assignment in
// MapReduce". There is no limit on the tasks of a node. At each heartbeat a
// classifier calls each job's next map and next reduce good or bad for this
// node; the best good one is given out; and the node's next heartbeat tells
// whether the node is overloaded now, which is the label from which the
// classifier learns ("automatic supervision"):
//
//	heartbeat:  judge what the last one decided → train → predict → decide
//
// The parts, from the bottom up:
//
//	features.go                what is known of a job and a node, as bins and numbers
//	bayes.go perceptron.go     the two classifiers
//	rule.go                    when a node is overloaded
//	hints.go                   what is assumed of a job that says nothing
//	utility.go                 what a job's task is worth
//	learner.go log.go          decisions, their judgement, and their memory
//	state.go                   all of it as bytes
//
// The package is pure, and apart from counting it allocates nothing once it has
// warmed up. slots.Overload and order.Utility make a policy of it.
package learning
