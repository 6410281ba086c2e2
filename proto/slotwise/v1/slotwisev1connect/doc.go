// Package slotwisev1connect holds the clients and handlers of the master's two
// services. It is generated from the .proto files above it by
// proto/generate.sh.
package slotwisev1connect
