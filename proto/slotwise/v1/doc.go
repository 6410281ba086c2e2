// Package slotwisev1 holds the messages that master, workers, attempts and
// clients exchange. It is generated from the .proto files beside it, which say
// what each means, by proto/generate.sh.
package slotwisev1
