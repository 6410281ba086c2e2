// Command slotwise runs MapReduce jobs on this machine or on a cluster, and
// simulates their scheduling. See package cli for its commands.
package main

import "github.com/slotwise/slotwise/cli"

func main() { cli.Main() }
