package storage

// WithOps returns l with the operations of its stagings wrapped.
func WithOps(l Local, wrap func(RenameOps) RenameOps) Local {
	l.wrapOps = &wrap
	return l
}
