// Package tools pins the programs that check the project.
// They have a module of their own, so that the product's go.mod lists only what the
// product needs. Its test shows that the rules of .golangci.yml find violations.
package tools
