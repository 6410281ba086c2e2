package repro

import (
	"fmt"
	"slices"
	"strings"
)

// paper is a paper and its experiments.
type paper struct {
	// name is short, for commands; title says what it is.
	name, title string
	experiments func() []Experiment
}

// papers is the registry, in the order of the report.
var papers = []paper{
	{"tumm", "Yao et al., Self-Adjusting Slot Configurations for Homogeneous and Heterogeneous Hadoop Clusters, 2015", tumm},
	{"modfair", "Modified fair scheduler (ModFair), journal version of a paper at PlatCon-17", modfairExperiments},
	{"tyrex", "Ghit and Epema, Tyrex: Size-Based Resource Allocation in MapReduce Frameworks, 2016", tyrexExperiments},
	{"learning", "Dhok and Varma, Using Pattern Classification for Task Assignment in MapReduce", learningExperiments},
	{"dynamicmr", "Tang, Lee and He, DynamicMR: A Dynamic Slot Allocation Optimization Framework for MapReduce Clusters, 2014", dynamicMR},
}

// Papers are the short names of the papers, in the order of the report.
func Papers() []string {
	names := make([]string, len(papers))
	for i, p := range papers {
		names[i] = p.name
	}
	return names
}

// PaperTitle is the full title of a paper, "" of none.
func PaperTitle(name string) string {
	for _, p := range papers {
		if p.name == name {
			return p.title
		}
	}
	return ""
}

// All returns every experiment, by paper.
func All() []Experiment {
	var all []Experiment
	for _, p := range papers {
		for _, e := range p.experiments() {
			e.Paper = p.name
			all = append(all, e)
		}
	}
	return all
}

// Find returns the experiments that a name stands for: a paper's, the one of that
// ID, or all of them for "all".
func Find(name string) ([]Experiment, error) {
	var found []Experiment
	for _, e := range All() {
		if name == "all" || e.Paper == name || e.ID == name {
			found = append(found, e)
		}
	}
	if found == nil {
		names := slices.Concat([]string{"all"}, Papers())
		return nil, fmt.Errorf("no experiment %q; there are %s, and IDs such as %s", name,
			strings.Join(names, ", "), All()[0].ID)
	}
	return found, nil
}
