// Command oracle replays scripts of cluster events on the real job tracker and
// policies and prints their decisions. Decisions of Hadoop 1.2.1's own schedulers on the
// same scripts were recorded in the same format. The command decides nothing itself, so a
// difference from a recording is a difference between the policies.
//
//	go -C lab run ./oracle FILE…
//
// A script is lines of a command and its arguments; # starts a comment.
//
//	scheduler fifo|fair|capacity                     first
//	set KEY VALUE                                    a property of the scheduler
//	tracker TT host=H rack=/r1 maps=2 reduces=2
//	pool P minMaps=… · user U maxRunningJobs=… · alloc TAG VALUE    as in fair-scheduler.xml
//	queue Q capacity=… …                             as in capacity-scheduler.xml
//	start                                            the clock starts at 0; the commands below follow it
//	job J pool= queue= user= maps= reduces= priority= slowstart= loc=h1,h2;h3;-
//	finish TT J_m_3 · fail TT J_r_0                  an attempt ended; TT's next heartbeat reports it
//	heartbeat TT                                     printed
//	priority J HIGH · advance MS · show
//
// A preempted attempt ends at once. Speculative copies are disabled.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: oracle FILE…")
		os.Exit(2)
	}
	for _, path := range os.Args[1:] {
		if err := replayFile(os.Stdout, path); err != nil {
			fmt.Fprintf(os.Stderr, "oracle: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func replayFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return replay(w, f)
}
