package generate

// Kinds returns all kinds in the order of listings. To add a kind, add a row here.
func Kinds() []Kind {
	// Defaults are part of a data set's identity: changing one changes the bytes of every script that relies
	// on it.
	return []Kind{
		{
			Name:    "text",
			Summary: "lines of 5 to 15 words; word frequencies follow Zipf's law (s = 1) over 200,000 words",
			Func:    inParts(textParts, partSize, zipfText),
		},
		{
			Name:    "records",
			Summary: "100-byte records with 10-byte random keys, as the sort benchmarks use",
			Func:    inParts(recordParts, partSize/recordLen*recordLen, records),
		},
		{
			Name:    "tpch",
			Summary: "the eight tables of the TPC-H benchmark, columns separated by |",
			Params:  []Param{{Name: "scale", Default: "0", Help: "scale factor, 0.001 to 100000; 0 takes what gives the size"}},
			Func:    tpch,
		},
		{
			Name:    "trackerlogs",
			Summary: "hourly samples of BitTorrent swarms by tracker, columns separated by TAB",
			Params: []Param{
				{Name: "trackers", Default: "40", Help: "how many trackers are watched"},
				{Name: "swarms", Default: "20000", Help: "how many swarms there are in all"},
				{Name: "hours", Default: "0", Help: "how long they are watched; 0 watches until the size is reached"},
			},
			Func: trackerLogs,
		},
		{
			Name:    "movies",
			Summary: "movies with the ratings that users gave them, as the PUMA suite has them",
			Func:    inParts(movieParts, partSize, movies),
		},
		{
			Name:    "points",
			Summary: "named vectors in clusters, for kmeans and classification",
			Params: []Param{
				{Name: "clusters", Default: "8", Help: "how many clusters there are"},
				{Name: "dimensions", Default: "4", Help: "how many numbers a vector has"},
			},
			Func: points,
		},
		{
			Name:    "graph",
			Summary: "edges of a directed graph whose out-degrees follow a power law",
			Params:  []Param{{Name: "nodes", Default: "1000000", Help: "how many nodes there are"}},
			Func:    inParts(edgeParts, partSize, graph),
		},
		{
			Name:    "documents",
			Summary: "many small files of text, for invertedindex, termvector and sequencecount",
			Params:  []Param{{Name: "files", Default: "100", Help: "how many files to make"}},
			Func:    documents,
		},
	}
}

// Lookup returns the kind called name.
func Lookup(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}
