package sched

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// stateVersion is the version of the envelope. Each part has its own version for
// its state.
const stateVersion = 1

// envelope is the document that SaveState writes. It is JSON so that people can
// recognize it.
type envelope struct {
	Version int      `json:"version"` // stateVersion
	Policy  string   `json:"policy"`  // the spec, with replaced parts
	Parts   [][]byte `json:"parts"`   // what Save of each part returned
	Sum     uint32   `json:"crc32"`   // checksum of all fields above
}

func (e *envelope) sum() uint32 {
	h := crc32.NewIEEE()
	fmt.Fprintf(h, "%d %s\n", e.Version, e.Policy)
	for _, p := range e.Parts {
		// The length keeps two parts from being cut at another place with the same sum.
		fmt.Fprintf(h, "%d ", len(p))
		h.Write(p)
	}
	return h.Sum32()
}

// SaveState returns one document with what the parts of a policy have learned. policy
// is the spec that the policy was built from. LoadState accepts the document only for
// the same spec.
func SaveState(policy string, parts []Stateful) ([]byte, error) {
	e := envelope{Version: stateVersion, Policy: policy, Parts: [][]byte{}}
	for _, p := range parts {
		// An error ends the save. A document without one part would be refused when it is loaded, after the
		// old one has been replaced.
		b, err := p.Save()
		if err != nil {
			return nil, fmt.Errorf("saving the learned state of policy %s: %w", policy, err)
		}
		e.Parts = append(e.Parts, b)
	}
	e.Sum = e.sum()
	return json.Marshal(&e)
}

// LoadState restores what SaveState has written to the parts of a policy. It returns an
// error if the document is damaged, has another version, or was saved under another
// spec, or if a part rejects its state. After an error all parts have the state that
// they had before.
func LoadState(doc []byte, policy string, parts []Stateful) error {
	var e envelope
	if err := json.Unmarshal(doc, &e); err != nil {
		return fmt.Errorf("learned state: %w", err)
	}
	switch {
	case e.Version != stateVersion:
		return fmt.Errorf("learned state: the file has version %d, this program reads version %d", e.Version, stateVersion)
	// Before the policy's name, which may be what the damage has changed.
	case e.Sum != e.sum():
		return errors.New("learned state: checksum mismatch")
	case e.Policy != policy:
		return fmt.Errorf("learned state: saved under policy %q, which is not the present policy %q", e.Policy, policy)
	case len(e.Parts) != len(parts):
		return fmt.Errorf("learned state: the file has %d parts, policy %q has %d", len(e.Parts), policy, len(parts))
	}
	// A part may reject its state after others have taken theirs. Half of a learned state would be
	// worse than none.
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
			// The part that has failed, too: its Load promises to change nothing, but a part of a load
			// cannot be seen from here.
			for k := range i + 1 {
				err = errors.Join(err, parts[k].Load(before[k]))
			}
			return err
		}
	}
	return nil
}

// ReadState decodes the state of one part, for use in Stateful.Load. The state is a JSON
// object with the fields "kind" and "version" and the fields of into. ReadState returns
// an error if the object is incomplete, has unknown fields, is followed by anything, or
// has another kind or version. what names the part in errors. The caller must check all
// values before it uses the first.
func ReadState(state []byte, what, kind string, version int, into any) error {
	dec := json.NewDecoder(bytes.NewReader(state))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("state of %s: %w", what, err)
	}
	// Decode stops at the end of the first value.
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("state of %s: data follows the end of the JSON object", what)
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
		return fmt.Errorf("state of %s: the file holds the state of %q", what, head.Kind)
	case head.Version != version:
		return fmt.Errorf("state of %s: the file has version %d, this program reads version %d", what, head.Version, version)
	}
	return nil
}
