package faultfs

import "github.com/slotwise/slotwise/internal/data/storage"

// Scratch is a storage.Scratch whose operations fail as its Faults say: Create,
// Write and Read, with the name of the file as their path.
type Scratch struct {
	Faults
	under storage.Scratch
}

// NewScratch wraps a scratch, which belongs to the Scratch from now on.
func NewScratch(under storage.Scratch, rules ...Rule) *Scratch {
	s := &Scratch{under: under}
	s.Inject(rules...)
	return s
}

// Create implements storage.Scratch.
func (s *Scratch) Create(name string) (storage.ScratchFile, error) {
	if err := s.Changing(Create, name); err != nil {
		return nil, err
	}
	f, err := s.under.Create(name)
	if err != nil {
		return nil, err
	}
	return &scratchFile{f, s, name}, nil
}

// Close implements storage.Scratch.
func (s *Scratch) Close() error { return s.under.Close() }

// scratchFile is a storage.ScratchFile whose operations fail.
type scratchFile struct {
	storage.ScratchFile
	s    *Scratch
	name string
}

// Write implements storage.ScratchFile.
func (f *scratchFile) Write(p []byte) (int, error) { return f.s.write(f.name, p, f.ScratchFile.Write) }

// ReadAt implements storage.ScratchFile.
func (f *scratchFile) ReadAt(p []byte, off int64) (int, error) {
	return f.s.read(f.name, p, off, f.ScratchFile.ReadAt)
}
