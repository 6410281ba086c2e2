module github.com/slotwise/slotwise

go 1.26

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
