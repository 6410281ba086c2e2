// Command sjf is slotwise with one more policy, shortest job first. See
// docs/write-a-policy.md for how to write one.
package main

import "github.com/slotwise/slotwise/cli"

func main() {
	cli.Main(cli.WithPolicies(policies))
}
