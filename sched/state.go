package sched

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// stateVersion is that of the envelope; each part versions its own state.
const stateVersion = 1

// envelope is what SaveState writes: JSON, so that people can see what it is.
type envelope struct {
	Version int      `json:"version"`
	Policy  string   `json:"policy"`
	Parts   [][]byte `json:"parts"`
	Sum     uint32   `json:"crc32"` // of the policy's name and the parts
}

func (e *envelope) sum() uint32 {
	h := crc32.NewIEEE()
	fmt.Fprintf(h, "%d %s\n", e.Version, e.Policy)
	for _, p := range e.Parts {
		fmt.Fprintf(h, "%d ", len(p))
		h.Write(p)
	}
	return h.Sum32()
}

// SaveState puts what the parts of a policy have learned into one document.
// The policy is named as it was built, and must be named the same to load it.
func SaveState(policy string, parts []Stateful) ([]byte, error) {
	e := envelope{Version: stateVersion, Policy: policy, Parts: [][]byte{}}
	for _, p := range parts {
		b, err := p.Save()
		if err != nil {
			return nil, fmt.Errorf("saving what %s has learned: %w", policy, err)
		}
		e.Parts = append(e.Parts, b)
	}
	e.Sum = e.sum()
	return json.Marshal(&e)
}

// LoadState gives the parts of a policy what SaveState wrote. A document that is
// damaged, of another version or of another policy is refused; then, and if a
// part refuses its state, all parts are as they were.
func LoadState(doc []byte, policy string, parts []Stateful) error {
	var e envelope
	if err := json.Unmarshal(doc, &e); err != nil {
		return fmt.Errorf("learned state: %w", err)
	}
	switch {
	case e.Version != stateVersion:
		return fmt.Errorf("learned state: version %d, this program reads %d", e.Version, stateVersion)
	case e.Sum != e.sum():
		return errors.New("learned state: checksum mismatch")
	case e.Policy != policy:
		return fmt.Errorf("learned state: it is that of policy %q, not of %q", e.Policy, policy)
	case len(e.Parts) != len(parts):
		return fmt.Errorf("learned state: %d parts, policy %q has %d", len(e.Parts), policy, len(parts))
	}
	before := make([][]byte, len(parts))
	for i, p := range parts {
		b, err := p.Save()
		if err != nil {
			return fmt.Errorf("learned state: %w", err)
		}
		before[i] = b
	}
	for i, p := range parts {
		if err := p.Load(e.Parts[i]); err != nil {
			err = fmt.Errorf("learned state: part %d of policy %q: %w", i+1, policy, err)
			for k := range i + 1 {
				err = errors.Join(err, parts[k].Load(before[k]))
			}
			return err
		}
	}
	return nil
}

// ReadState decodes the state of one part, a JSON object that says its kind and
// version, strictly: one that is not whole, has unknown fields or something
// after it, or is of another kind or version is an error, which begins with
// what. The caller checks the values before it takes any over.
func ReadState(state []byte, what, kind string, version int, into any) error {
	dec := json.NewDecoder(bytes.NewReader(state))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("state of %s: %w", what, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("state of %s: more follows its end", what)
	}
	var head struct {
		Kind    string `json:"kind"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(state, &head); err != nil {
		return fmt.Errorf("state of %s: %w", what, err)
	}
	switch {
	case head.Kind != kind:
		return fmt.Errorf("state of %s: this is a state of %q", what, head.Kind)
	case head.Version != version:
		return fmt.Errorf("state of %s: version %d, this program reads %d", what, head.Version, version)
	}
	return nil
}
