package console

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// Results is the source of a console for a directory that slotwise sim --out or slotwise study
// has written. A job of the workload of sim is a separate job in each run, so that two
// policies' runs of this job can be compared. The results of a study have no jobs (grid.go). Results
// changes nothing.
// Nothing in it changes once OpenResults has returned, so requests need no lock. Tables of attempts stay in
// their files until a page of a job needs them, because a run may have millions.
type Results struct {
	source.Ended
	dir     string
	study   simStudy
	grid    *grid    // of a study; nil for the results of sim
	runs    []string // policy and seed, as in the names of files
	jobs    []*resultJob
	byID    map[string]*resultJob
	figures []string // names of SVG files
}

// simStudy holds the part of report.json that the pages show.
type simStudy struct {
	Workload  string `json:"workload"`
	Cluster   string `json:"cluster"`
	World     string `json:"world"`
	Heartbeat string `json:"heartbeat"`
	Policies  []struct {
		Policy   string `json:"policy"`
		Runs     int    `json:"runs"`
		Measures []struct {
			Name string   `json:"name"`
			N    int      `json:"n"`
			Mean *float64 `json:"mean"`
			Half *float64 `json:"half"`
		} `json:"measures"`
	} `json:"policies"`
}

// resultJob is a job in one run.
type resultJob struct {
	status *slotwisev1.JobStatus
	run    string
	index  string // in the workload, as the files have it
}

// Bounds of the files that are read.
const (
	mostResultJobs     = 500_000
	mostResultAttempts = 500_000 // of one job
	mostReport         = 256 << 20
)

var _ source.Source = (*Results)(nil)

// resultsBegin is the moment that the pages show for a simulation's start.
var resultsBegin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.Local)

// OpenResults reads the comparison and the table of jobs in the directory of sim --out, or the
// results of a study.
func OpenResults(dir string) (*Results, error) {
	if _, err := os.Stat(filepath.Join(dir, gridFile)); err == nil {
		return openGrid(dir)
	}
	s := &Results{Ended: source.Ended{Err: errOnlyResults}, dir: dir, byID: map[string]*resultJob{}}
	file, err := os.Open(filepath.Join(dir, "report.json"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// A file that is cut by the limit is no JSON, so a larger report is an error and not a part of one.
	if err := json.NewDecoder(io.LimitReader(file, mostReport)).Decode(&s.study); err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	if err := readCSV(filepath.Join(dir, "jobs.csv"), s.addJob); err != nil {
		return nil, err
	}
	return s, s.findFigures()
}

// findFigures lists the plots in the directory.
func (s *Results) findFigures() error {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		// No symbolic links: the console would serve their targets, anywhere on the machine.
		if e.Type().IsRegular() && filepath.Ext(e.Name()) == ".svg" {
			s.figures = append(s.figures, e.Name())
		}
	}
	return err
}

// record is a row of a CSV file by the names of its columns.
// It is valid until the next row is read. Texts taken from it stay valid.
type record struct {
	columns map[string]int
	fields  []string
}

func (r *record) text(name string) string {
	if i, ok := r.columns[name]; ok && i < len(r.fields) {
		return r.fields[i]
	}
	return ""
}

// number returns a number, or 0 if the value is not a number.
func (r *record) number(name string) float64 {
	f, err := strconv.ParseFloat(r.text(name), 64)
	if err != nil {
		return 0
	}
	return f
}

// moment returns a time of the simulation in ms since the Unix epoch, or 0 if it never came.
func (r *record) moment(name string) int64 {
	// Files have -1 for events that never came. The upper bound keeps ms within int64 and dates within what a
	// browser can show.
	if f := r.number(name); f >= 0 && f < 1e11 {
		return resultsBegin.UnixMilli() + int64(1000*f)
	}
	return 0
}

// readCSV calls add for each row of a file until it returns an error.
func readCSV(path string, add func(*record) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in := csv.NewReader(file)
	// Files have a row for each attempt of all jobs, and most rows are passed over.
	in.ReuseRecord = true
	r := &record{columns: map[string]int{}}
	for line := 1; ; line++ {
		fields, err := in.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		case line == 1:
			for i, name := range fields {
				r.columns[name] = i
			}
			continue
		}
		r.fields = fields
		if err := add(r); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, line, err)
		}
	}
}

// resultStates are the states of ended jobs. A job that has not ended in its run was waiting or running.
var resultStates = map[string]slotwisev1.JobState{"succeeded": slotwisev1.JobState_JOB_STATE_SUCCEEDED, "failed": slotwisev1.JobState_JOB_STATE_FAILED,
	"killed": slotwisev1.JobState_JOB_STATE_KILLED, "running": slotwisev1.JobState_JOB_STATE_RUNNING}

// addJob adds a row of jobs.csv.
func (s *Results) addJob(r *record) error {
	if len(s.jobs) == mostResultJobs {
		return fmt.Errorf("more than %d jobs in all runs: show the results of fewer seeds or policies", mostResultJobs)
	}
	// As sim writes the names of files: a policy's parameters have characters that no file
	// name should have.
	policy := strings.Map(func(c rune) rune {
		if strings.ContainsRune("=,/ ", c) {
			return '_'
		}
		return c
	}, r.text("policy"))
	run := policy + "-" + r.text("seed")
	// The rows of one run follow each other.
	if len(s.runs) == 0 || s.runs[len(s.runs)-1] != run {
		s.runs = append(s.runs, run)
	}
	index, err := strconv.Atoi(r.text("job"))
	if err != nil {
		return fmt.Errorf("column job: %q is no number", cut(r.text("job"), 40))
	}
	maps, reduces := int32(r.number("maps")), int32(r.number("reduces"))
	// The simulation ended before the job did.
	state, ended := resultStates[r.text("state")]
	if !ended {
		state = slotwisev1.JobState_JOB_STATE_WAITING
	}
	// The id has the run's number because each run has all jobs of the workload. No id of a master has a dot.
	x := &slotwisev1.JobStatus{Id: fmt.Sprintf("r%d.j%d", len(s.runs), index+1), Name: r.text("name"), User: r.text("user"), Pool: r.text("pool"), Priority: "NORMAL", State: state,
		SubmittedMs: r.moment("submitted_s"), StartedMs: r.moment("started_s"), EndedMs: r.moment("ended_s"), Maps: &slotwisev1.TaskCounts{Total: maps}, Reduces: &slotwisev1.TaskCounts{Total: reduces},
		Message: fmt.Sprintf("policy %s, seed %s, slowdown %.2f", r.text("policy"), r.text("seed"), r.number("slowdown"))}
	// Files do not say how far the tasks of other jobs came; their bars stay empty.
	if state == slotwisev1.JobState_JOB_STATE_SUCCEEDED {
		x.Maps.Done, x.Reduces.Done, x.Maps.Progress, x.Reduces.Progress = maps, reduces, 1, 1
	}
	j := &resultJob{x, run, r.text("job")}
	s.jobs = append(s.jobs, j)
	s.byID[x.Id] = j
	return nil
}

// errOnlyResults is the answer of pages that results cannot fill.
var errOnlyResults = connect.NewError(connect.CodeNotFound, errors.New("the results of a simulation have no nodes, no installed policy and no logs"))

// Jobs implements Source.
func (s *Results) Jobs(ctx context.Context, q source.Query) (source.Jobs, error) {
	return s.History(ctx, q)
}

// job finds a job.
func (s *Results) job(id string) (*resultJob, error) {
	if j := s.byID[id]; j != nil {
		return j, nil
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("the results have no job %s", cut(id, 80)))
}

// Job implements Source.
func (s *Results) Job(_ context.Context, id string) (*source.Job, error) {
	j, err := s.job(id)
	if err != nil {
		return nil, err
	}
	return &source.Job{Status: j.status, Past: true}, nil
}

// Attempts implements Source. It reads the table of the job's run.
func (s *Results) Attempts(_ context.Context, id string) (list []source.Attempt, _ []*slotwisev1.Finding, err error) {
	j, err := s.job(id)
	if err != nil {
		return nil, nil, err
	}
	err = readCSV(filepath.Join(s.dir, "tasks-"+j.run+".csv"), func(r *record) error {
		// The file has the attempts of all jobs of the run.
		if r.text("job") != j.index {
			return nil
		}
		if len(list) == mostResultAttempts {
			return fmt.Errorf("job %s has more than %d attempts", id, mostResultAttempts)
		}
		_, rest, _ := strings.Cut(r.text("attempt"), "_")
		// The job's number in the file counts within its run; the id gets the run's prefix instead.
		parts := strings.Split(rest, "_") // kind, task, attempt
		if len(parts) != 3 {
			return fmt.Errorf("attempt %q: want an id such as j1_m_0_0", cut(r.text("attempt"), 40))
		}
		task, err := strconv.ParseInt(parts[1], 10, 32)
		if err != nil {
			return fmt.Errorf("attempt %q: %q is no number", cut(r.text("attempt"), 40), cut(parts[1], 40))
		}
		// Clones, because a field is a part of its row's text, and would keep the whole row in memory.
		a := source.Attempt{ID: id + "_" + rest, Kind: 'm', Task: int32(task), State: strings.Clone(r.text("outcome")), Node: strings.Clone(r.text("node")), Level: strings.Clone(r.text("locality")),
			Speculative: r.text("copy") == "true", Started: r.moment("started_s"), Ended: r.moment("left_s"), OutputBytes: int64(r.number("bytes"))}
		// Reduces have no locality; the file has a word for them nevertheless.
		if parts[0] == "r" {
			a.Kind, a.Level = 'r', ""
		}
		if a.State == "succeeded" {
			a.Progress = 1
		}
		list = append(list, a)
		return nil
	})
	return list, nil, err
}

// History implements Source. It lists the jobs of all runs, in the order of the files.
func (s *Results) History(_ context.Context, q source.Query) (out source.Jobs, err error) {
	text := strings.ToLower(q.Text)
	for _, j := range s.jobs {
		x := j.status
		if text != "" && !strings.Contains(strings.ToLower(x.Id+" "+x.Name+" "+j.run), text) || q.User != "" && q.User != x.User || q.Pool != "" && q.Pool != x.Pool ||
			q.State != "" && q.State != source.StateName(x.State) || x.SubmittedMs < q.From || q.To > 0 && x.SubmittedMs > q.To {
			continue
		}
		// All matches are counted, for the number of pages.
		if out.Total++; out.Total > q.Offset && len(out.List) < q.Limit {
			out.List = append(out.List, x)
		}
	}
	if s.grid != nil {
		out.Note = "A study keeps the measures of its runs and no jobs. slotwise sim --out keeps the jobs of a few runs."
		return out, nil
	}
	out.Note = "Search for a run, such as " + s.example() + ", for its jobs. A simulation begins on 2000-01-01 at 00:00:00."
	return out, nil
}

// example returns the name of a run.
func (s *Results) example() string {
	if len(s.runs) == 0 {
		return "fifo-1"
	}
	return s.runs[0]
}

// mainMeasures are the columns of the comparison. The other measures are in a table of their own.
var mainMeasures = []column{{Key: "makespan", Name: "Makespan (s)"}, {Key: "response.mean", Name: "Mean response (s)"}, {Key: "response.p95", Name: "95 % of responses (s)"},
	{Key: "waiting.mean", Name: "Mean waiting (s)"}, {Key: "slowdown.mean", Name: "Mean slowdown"}, {Key: "slowdown.p95", Name: "95 % of slowdowns"}}

// comparison is the first page: the policies' measures, the runs and the figures.
func (s *Results) comparison(r *http.Request) (*page, error) {
	if s.grid != nil {
		return s.studyPage(r)
	}
	main := &table{ID: "comparison", Caption: "Means over the runs, ± half of the 95 % confidence interval", Columns: []column{{Key: "policy", Name: "Policy"}, {Key: "runs", Name: "Runs", Number: true}}}
	for _, c := range mainMeasures {
		main.Columns = append(main.Columns, column{Key: c.Key, Name: c.Name, Number: true})
	}
	all := &table{ID: "measures", Caption: "All measures", Folded: true, Columns: []column{{Key: "policy", Name: "Policy"}, {Key: "measure", Name: "Measure"}, {Key: "n", Name: "Runs", Number: true}, {Key: "mean", Name: "Mean", Number: true}, {Key: "half", Name: "Half interval", Number: true}}}
	for _, p := range s.study.Policies {
		row := []cell{plain(p.Policy), number(int64(p.Runs))}
		// A run may lack a measure. Each row has all columns, or the values would move under other
		// names.
		for range mainMeasures {
			row = append(row, cell{Text: "–", Value: ""})
		}
		for _, m := range p.Measures {
			// JSON has no infinity: the mean of a measure that some run never reached is null.
			if m.Mean == nil {
				continue
			}
			mean, half := datumCell(sched.Number(*m.Mean)), cell{Text: "–", Value: ""}
			if m.Half != nil {
				half = datumCell(sched.Number(*m.Half))
			}
			all.Rows = append(all.Rows, []cell{plain(p.Policy), plain(m.Name), number(int64(m.N)), mean, half})
			if at := slices.IndexFunc(mainMeasures, func(c column) bool { return c.Key == m.Name }); at >= 0 {
				if m.Half != nil {
					mean.Text += " ± " + half.Text
				}
				row[2+at] = mean
			}
		}
		main.Rows = append(main.Rows, row)
	}
	runs := &section{ID: "runs", Title: terminal.Plural(len(s.runs), "run"), Notes: []string{"The jobs of each run. Two jobs, such as the same job under two policies, can be compared on the page of the jobs."}}
	for _, name := range s.runs {
		runs.Links = append(runs.Links, link{Text: name, Href: "/ui/history?q=" + url.QueryEscape(name)})
	}
	facts := &section{ID: "study", Title: "Study"}
	for _, f := range []fact{{"Workload", plain(s.study.Workload)}, {"Cluster", plain(s.study.Cluster)}, {"World", plain(s.study.World)}, {"Heartbeats", plain(s.study.Heartbeat)}} {
		if f.Text != "" {
			facts.Facts = append(facts.Facts, f)
		}
	}
	p := &page{Title: "Results of simulations", Sections: []*section{facts, {ID: "comparison", Title: "Policies", Table: main}, {ID: "measures", Title: "All measures", Table: all}, runs}}
	s.addFigures(p)
	return p, nil
}

// Figures of a page: the first ones are open, the others folded.
const (
	maxFigures  = 60
	openFigures = 4
)

// addFigures adds the plots to a page.
func (s *Results) addFigures(p *page) {
	for i, name := range s.figures {
		if i == maxFigures {
			p.add(&section{ID: "figures", Notes: []string{fmt.Sprintf("The first %d of %d figures. The others are in %s.", maxFigures, len(s.figures), s.dir)}})
			break
		}
		title := strings.TrimSuffix(name, ".svg")
		p.add(&section{ID: "figure" + strconv.Itoa(i), Title: capitalized(title), Half: i < openFigures, Folded: i >= openFigures, Image: &image{Src: "/ui/figures/" + url.PathEscape(name), Alt: "the figure " + title}})
	}
}

// figure serves a figure.
func (s *Results) figure(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	// The list, and not the file system, decides: a name with .. is in no list.
	if !slices.Contains(s.figures, name) {
		http.NotFound(w, r)
		return
	}
	body, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		http.Error(w, "the figure cannot be read", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	// A figure that is opened by itself has its style sheet with it, and needs nothing else.
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'")
	write(w, r, http.StatusOK, body)
}
