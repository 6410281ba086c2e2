// Command pause waits for a signal to end it. The sandbox of each pod runs it.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1) // as process 1 of a pod it has no default handler
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
}
