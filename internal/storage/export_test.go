package storage

// CrashAt sets the hook that a shared staging's Commit asks before each step.
// The killed process's lock goes with it.
func CrashAt(s Staging, hook func(step string) error) {
	x := s.(*sharedStaging)
	x.crash = func(step string) error {
		err := hook(step)
		if err != nil {
			_ = x.lock.Close() // what the system does for a dead process
		}
		return err
	}
}
