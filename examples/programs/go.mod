module example.com/programs

go 1.26.0

require github.com/slotwise/slotwise v0.0.0

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/slotwise/slotwise => ../..
