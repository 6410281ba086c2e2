package attempt

import (
	"fmt"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/storage"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// EncodeSplits returns the messages of splits, and of the layouts to which they refer.
func EncodeSplits(splits []engine.SourceSplit) (list []*slotwisev1.Split, layouts []*slotwisev1.Layout) {
	numbers := map[*format.Layout]int32{nil: 0} // of the layouts, from 1
	for _, s := range splits {
		first := s.Split.First
		// One message for each layout: all splits of an input refer to one, which may have
		// thousands of columns.
		if _, ok := numbers[first]; !ok {
			l := &slotwisev1.Layout{File: first.File}
			for _, name := range first.Columns {
				// Names are bytes on the wire, because a file's column names need not be UTF-8.
				l.Columns = append(l.Columns, []byte(name))
			}
			layouts = append(layouts, l)
			numbers[first] = int32(len(layouts))
		}
		out := &slotwisev1.Split{Source: int32(s.Source), Hosts: s.Split.Hosts, Bytes: s.Split.Bytes, Rows: s.Split.Rows, Layout: numbers[first]}
		for _, x := range s.Split.Pieces {
			out.Pieces = append(out.Pieces, &slotwisev1.Piece{Uri: x.URI, Offset: x.Offset, Length: x.Length, FileSize: x.FileSize,
				FileId: x.Version.ID, ModTime: x.Version.ModTime, Sample: x.Version.Sample})
		}
		list = append(list, out)
	}
	return list, layouts
}

// decodeSplit is the inverse of EncodeSplits for one split. The error is permanent.
func decodeSplit(s *slotwisev1.Split, spec *slotwisev1.JobSpec) (input.Split, error) {
	out := input.Split{Hosts: s.GetHosts(), Bytes: s.GetBytes(), Rows: s.GetRows()}
	for _, p := range s.GetPieces() {
		out.Pieces = append(out.Pieces, input.Piece{URI: p.GetUri(), Offset: p.GetOffset(), Length: p.GetLength(), FileSize: p.GetFileSize(),
			Version: storage.Version{ID: p.GetFileId(), ModTime: p.GetModTime(), Sample: p.GetSample()}})
	}
	// Layouts are numbered from 1; 0 says that the split has none.
	// The master has checked the number. An attempt verifies it again, because an index out of range would end
	// its process without a message that names the reason.
	if n := int(s.GetLayout()); n != 0 {
		all := spec.GetLayouts()
		if n < 0 || n > len(all) {
			return out, retry.Permanent(fmt.Errorf("the split refers to layout %d of columns, but the job has %d layouts", n, len(all)))
		}
		out.First = &format.Layout{File: all[n-1].GetFile()}
		for _, name := range all[n-1].GetColumns() {
			out.First.Columns = append(out.First.Columns, string(name))
		}
	}
	return out, nil
}
