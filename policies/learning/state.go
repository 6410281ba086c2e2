package learning

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/slotwise/slotwise/sched/job"
)

// A saved state consists of
//
//	magic, a line
//	length of the header, 4 bytes, little endian
//	header, JSON
//	records, of fixed size, little endian
//	CRC-32 of everything before
const magic = "slotwise learning 4\n"

// header is the part of a saved state that precedes the log.
type header struct {
	Identity string   `json:"identity"` // of the classifier; see Config.identity
	Withheld string   `json:"withheld"`
	Rule     Rule     `json:"rule"`
	Model    model    `json:"model"`
	Hints    []uint32 `json:"hints"`
	Accuracy Accuracy `json:"accuracy"`
	Seq      int64    `json:"seq"`
	Records  int      `json:"records"`
}

// model is the learned content of a classifier: counts or weights.
type model struct {
	Good    uint64     `json:"good,omitempty"`
	Bad     uint64     `json:"bad,omitempty"`
	Counts  [][]uint64 `json:"counts,omitempty"` // by class, then bins of all features
	Weights []float64  `json:"weights,omitempty"`
}

func (b *Bayes) save() model {
	return model{Good: b.n[good], Bad: b.n[bad], Counts: [][]uint64{slices.Clone(b.count[bad]), slices.Clone(b.count[good])}}
}

// load implements Classifier. Each example is in one bin of each feature, so
// the counts of a feature's bins must add up to the number of examples of the
// class.
func (b *Bayes) load(m model) error {
	if len(m.Counts) != classes || m.Weights != nil {
		return errors.New("these are not the counts of a naive Bayes classifier")
	}
	n := [classes]uint64{bad: m.Bad, good: m.Good}
	for c, counts := range m.Counts {
		if len(counts) != len(b.count[c]) {
			return fmt.Errorf("%d counts, expected %d", len(counts), len(b.count[c]))
		}
		for i, at := range b.start {
			sum := uint64(0)
			for _, x := range counts[at : at+b.sizes[i]] {
				sum += x
			}
			// A state that contradicts itself would give probabilities above 1.
			if sum != n[c] {
				return fmt.Errorf("the counts of feature %d add up to %d of %d examples", i+1, sum, n[c])
			}
		}
	}
	// From here on nothing fails: a load that is rejected halfway would leave counts of two states.
	b.n = n
	for c, counts := range m.Counts {
		copy(b.count[c], counts)
		for i, x := range counts {
			b.ln[i][c] = b.lnCount(x)
		}
		b.retotal(c)
	}
	b.rebase()
	return nil
}

// Save returns the learned state and the log as bytes. Decisions that wait for
// their label are not saved.
func (l *Learner) Save() ([]byte, error) {
	head, err := json.Marshal(&header{Identity: l.cfg.identity(), Withheld: l.cfg.Withheld, Rule: l.cfg.Rule,
		Model: l.model.save(), Hints: l.Hints.flat(), Accuracy: l.accuracy, Seq: l.seq, Records: l.log.Len()})
	if err != nil {
		return nil, err
	}
	out := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(head)))
	out = append(out, head...)
	for i := range l.log.Len() {
		if out, err = binary.Append(out, binary.LittleEndian, l.log.At(i)); err != nil {
			return nil, err
		}
	}
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out)), nil
}

// Load replaces the learner's state by one that Save wrote. It rejects state
// that is damaged, of another version, or of a classifier with other
// parameters, and then changes nothing. If the state was learned under another
// rule, Load learns again from its log.
func (l *Learner) Load(state []byte) error {
	head, records, err := split(state)
	if err != nil {
		return err
	}
	if id := l.cfg.identity(); head.Identity != id {
		return fmt.Errorf("the state is of the classifier %q, but the policy uses %q", head.Identity, id)
	}
	log, err := readLog(records, head, l.cfg.LogSize)
	if err != nil {
		return err
	}
	// All parts are read before one is replaced, so a damaged state changes nothing.
	fresh := l.cfg.newClassifier()
	if err := fresh.load(head.Model); err != nil {
		return err
	}
	var hints Hints
	if err := hints.set(head.Hints); err != nil {
		return err
	}
	l.model, l.log, l.accuracy, l.seq, l.Hints = fresh, log, head.Accuracy, head.Seq, hints
	// The counts are of labels under another rule (reading 12 in README.md).
	if head.Rule != l.cfg.Rule || head.Withheld != l.cfg.Withheld {
		l.relearn()
	}
	return nil
}

// split checks the checksum of a saved state and returns its header and its
// records.
func split(state []byte) (*header, []byte, error) {
	rest, ok := bytes.CutPrefix(state, []byte(magic))
	if !ok {
		return nil, nil, errors.New("this is not the state of a learning scheduler, or it is of another version")
	}
	// The size of the header and the checksum have 4 bytes each.
	if len(rest) < 8 {
		return nil, nil, io.ErrUnexpectedEOF
	}
	end := len(state) - 4
	// Before anything is decoded: the lengths in a damaged state cannot be trusted.
	if binary.LittleEndian.Uint32(state[end:]) != crc32.ChecksumIEEE(state[:end]) {
		return nil, nil, errors.New("checksum mismatch")
	}
	size, body := int64(binary.LittleEndian.Uint32(rest)), rest[4:len(rest)-4]
	if size > int64(len(body)) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	var h header
	if err := json.Unmarshal(body[:size], &h); err != nil {
		return nil, nil, err
	}
	return &h, body[size:], nil
}

// readLog decodes the records that follow a header. It keeps the latest limit
// ones.
func readLog(data []byte, h *header, limit int) (*Log, error) {
	log, size, last := NewLog(limit), binary.Size(Record{}), int64(0)
	if h.Records < 0 || len(data) != h.Records*size {
		return nil, fmt.Errorf("%d bytes do not hold %d records of %d bytes", len(data), h.Records, size)
	}
	for len(data) > 0 {
		var r Record
		if _, err := binary.Decode(data, binary.LittleEndian, &r); err != nil {
			return nil, err
		}
		// The first number need not be 1: a log of bounded size drops its oldest records.
		if r.Seq <= last || r.Seq > h.Seq || r.Kind >= job.Kinds || r.Node < 0 {
			return nil, fmt.Errorf("record %d is out of order or invalid", r.Seq)
		}
		last, data = r.Seq, data[size:]
		log.Append(r)
	}
	return log, nil
}

// flat returns all counts as one list.
func (h *Hints) flat() []uint32 {
	var out []uint32
	for k := range h.count {
		for i := range h.count[k] {
			out = append(out, h.count[k][i][:]...)
		}
	}
	return out
}

// set replaces all counts by a list that flat returned.
func (h *Hints) set(flat []uint32) error {
	if want := len(h.flat()); len(flat) != want {
		return fmt.Errorf("%d counts of resource hints, expected %d", len(flat), want)
	}
	for k := range h.count {
		for i := range h.count[k] {
			flat = flat[copy(h.count[k][i][:], flat):]
		}
	}
	return nil
}
