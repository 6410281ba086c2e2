package engine

import (
	"runtime"
	"strconv"
	"strings"
)

// userStack describes the frames of a recovered panic from where it began to
// where the engine called user code.
func userStack() string {
	pc := make([]uintptr, 32)
	// Skips Callers, userStack, newPanicError and the deferred function: the stack begins at the panic.
	frames := runtime.CallersFrames(pc[:runtime.Callers(4, pc)])
	var b strings.Builder
	for {
		f, more := frames.Next()
		// The frames above RunMap and RunReduce are the runner's and say nothing to the job's author.
		if strings.Contains(f.Function, "internal/data/engine.Run") {
			break
		}
		if !strings.HasPrefix(f.Function, "runtime.") && f.Function != "" {
			b.WriteString("\t" + f.Function + " " + f.File + ":" + strconv.Itoa(f.Line) + "\n")
		}
		if !more {
			break
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
