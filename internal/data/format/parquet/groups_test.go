package parquet

import (
	"testing"

	types "github.com/parquet-go/parquet-go/format"

	"github.com/slotwise/slotwise/internal/data/format"
)

// TestGroupsOutside: a row group whose offset lies outside the file is an error for each source
// of the file. No source would read its rows. The same holds for a negative number of rows.
func TestGroupsOutside(t *testing.T) {
	for start, ok := range map[int64]bool{-1: false, 4: true, 99: true, 100: false} {
		meta := &types.FileMetaData{RowGroups: []types.RowGroup{{Columns: []types.ColumnChunk{{MetaData: types.ColumnMetaData{DataPageOffset: start}}}}}}
		found := 0
		for _, part := range [][2]int64{{0, 50}, {50, 100}} {
			all, err := groups(meta, &format.Source{Size: 100, From: part[0], To: part[1]})
			if (err == nil) != ok {
				t.Errorf("a group at %d: %v", start, err)
			}
			found += len(all)
		}
		if ok && found != 1 {
			t.Errorf("a group at %d is read %d times", start, found)
		}
	}
	meta := &types.FileMetaData{RowGroups: []types.RowGroup{{NumRows: -1}}}
	if _, err := groups(meta, &format.Source{Size: 100, To: 100}); err == nil {
		t.Error("a group of -1 rows has no error")
	}
}
