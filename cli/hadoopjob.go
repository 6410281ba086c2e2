package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/hadoop"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/wire"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// jobUsage describes hadoop job.
const jobUsage = `Usage: mapred job -list [all] | -status JOB | -kill JOB | -counter JOB GROUP NAME | -history JOB | -set-priority JOB PRIORITY
       yarn application -list | -status ID | -kill ID
`

// job runs hadoop job, mapred job, yarn application and hadoop queue on the cluster of
// SLOTWISE_MASTER.
func (h *hadoopCommand) job(name string, args []string) error {
	g, args, err := hadoop.ParseGeneric(args)
	// An answer with the way to the same facts: queues of a file and pools of a policy have other
	// fields here.
	if err == nil && name == "queue" {
		err = fmt.Errorf("queue %s: queues and pools are on the master's page; slotwise jobs --pool NAME lists the jobs of one", strings.Join(args, " "))
	}
	if err != nil || len(args) == 0 {
		if err != nil {
			terminal.Fprintf(h.err, "%s\n", oneLine(err))
		}
		io.WriteString(h.err, jobUsage)
		return exit(hadoopUsage)
	}
	master := clusterAddress()
	// -jt names the cluster in scripts of Hadoop 1.
	if g.JT != "" && g.JT != "local" {
		master = g.JT
	}
	// A job of a process cannot be listed or killed from another one.
	if master == "" {
		terminal.Fprintf(h.err, "%s: no cluster: set SLOTWISE_MASTER to the address of the master; jobs of a process end with the process\n", name)
		return exit(hadoopFailed)
	}
	at, err := clusterFromEnvironment(master)
	if err == nil {
		var cl *client.Client
		if cl, err = client.New(at.Master, client.Options{HTTP: at.HTTP, Notify: notifyOn(h.err, "hadoop")}); err == nil {
			q := &hadoopJobs{hadoopCommand: h, cl: cl, application: name == "application"}
			return q.run(args)
		}
	}
	terminal.Fprintf(h.err, "%s\n", oneLine(err))
	return exit(hadoopFailed)
}

// hadoopJobs shows and changes jobs of a cluster. Chains are in the lists under their own ids:
// Hadoop has no such jobs.
type hadoopJobs struct {
	*hadoopCommand
	cl          *client.Client
	application bool // print the ids of applications, as yarn application does
}

// run runs one command.
func (q *hadoopJobs) run(args []string) error {
	verb, args := args[0], args[1:]
	want := map[string]int{"-list": 0, "-status": 1, "-kill": 1, "-history": 1, "-counter": 3, "-set-priority": 2}
	n, known := want[verb]
	if !known || len(args) < n {
		terminal.Fprintf(q.err, "%s: unknown, or arguments are missing\n", verb)
		io.WriteString(q.err, jobUsage)
		return exit(hadoopUsage)
	}
	var err error
	// Ids come in Hadoop's spelling, such as job_1_0007. ClusterJob translates them.
	switch verb {
	case "-list":
		err = q.list(len(args) > 0 && args[0] == "all")
	case "-kill":
		_, err = client.Call(q.ctx, q.cl, q.cl.RPC().Kill, &slotwisev1.KillRequest{Job: hadoop.ClusterJob(args[0]), Reason: "hadoop job -kill"})
		if err == nil {
			terminal.Fprintf(q.out, "Killed job %s\n", args[0])
		}
	case "-set-priority":
		p := strings.ToUpper(strings.ReplaceAll(args[1], "-", "_"))
		_, err = client.Call(q.ctx, q.cl, q.cl.RPC().SetPriority, &slotwisev1.SetPriorityRequest{Job: hadoop.ClusterJob(args[0]), Priority: p})
	default:
		err = q.show(verb, args)
	}
	if err != nil {
		terminal.Fprintf(q.err, "%s\n", client.Message(err))
		return exit(hadoopFailed)
	}
	return nil
}

// hadoopStates are Hadoop's words for the states of jobs. Hadoop has no word for the commit of a
// job's output: the job is RUNNING until then.
var hadoopStates = map[string]string{
	"pending": "PREP", "waiting": "PREP", "running": "RUNNING", "committing": "RUNNING", "aborting": "RUNNING",
	"succeeded": "SUCCEEDED", "failed": "FAILED", "killed": "KILLED",
}

// hadoopState returns the state of a job in Hadoop's words.
func hadoopState(s *slotwisev1.JobStatus) string {
	name := strings.ToLower(strings.TrimPrefix(s.GetState().String(), "JOB_STATE_"))
	return cmp.Or(hadoopStates[name], strings.ToUpper(name))
}

// id returns the id of a job as Hadoop's tools spell it. The stamp in the middle is a constant, so
// ids stay the same after a master's restart.
func (q *hadoopJobs) id(s *slotwisev1.JobStatus) string {
	n, err := hadoop.NumberOf(hadoop.ClusterStamp, s.GetId())
	switch {
	case err != nil:
		return s.GetId() // a chain
	case q.application:
		return n.Application()
	}
	return n.Job()
}

// list prints the jobs, in the columns of Hadoop that exist here. Times are milliseconds, as Hadoop
// has them.
func (q *hadoopJobs) list(all bool) error {
	jobs, err := q.cl.Jobs(q.ctx, &slotwisev1.JobsRequest{Ended: all})
	if err != nil {
		return err
	}
	terminal.Fprintf(q.out, "Total jobs:%d\n", len(jobs))
	t := table(q.out)
	fmt.Fprintln(t, "JobId\tJobName\tState\tStartTime\tUserName\tQueue\tPriority")
	for _, s := range jobs {
		terminal.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", q.id(s), s.GetName(), hadoopState(s), s.GetSubmittedMs(), s.GetUser(),
			cmp.Or(s.GetPool(), "default"), cmp.Or(s.GetPriority(), "NORMAL"))
	}
	return t.Flush()
}

// show prints the status or the history of a job, or one of its counters.
func (q *hadoopJobs) show(verb string, args []string) error {
	id := hadoop.ClusterJob(args[0])
	resp, err := client.Call(q.ctx, q.cl, q.cl.RPC().Job, &slotwisev1.JobRequest{Job: id})
	var s *slotwisev1.JobStatus
	if err == nil {
		s = resp.GetJob()
	} else {
		// The job may have left the master's memory. If the history does not have it either, the
		// first error is the one to show.
		past, perr := client.Call(q.ctx, q.cl, q.cl.RPC().History, &slotwisev1.HistoryRequest{Job: id})
		if perr != nil || len(past.GetJobs()) == 0 {
			return err
		}
		s = past.GetJobs()[0].GetJob()
	}
	groups := statsOf(s).Groups()
	// Only the number, because scripts read it.
	if verb == "-counter" {
		terminal.Fprintf(q.out, "%d\n", counterValue(groups, args[1], args[2]))
		return nil
	}
	m, r := s.GetMaps(), s.GetReduces()
	terminal.Fprintf(q.out, "\nJob: %s\nJob Name: %s\nUser: %s\nQueue: %s\nJob State: %s\n", q.id(s), s.GetName(), s.GetUser(), cmp.Or(s.GetPool(), "default"), hadoopState(s))
	terminal.Fprintf(q.out, "Number of maps: %d\nNumber of reduces: %d\nmap() completion: %s\nreduce() completion: %s\n",
		m.GetTotal(), r.GetTotal(), fraction(m.GetProgress()), fraction(r.GetProgress()))
	if why := s.GetMessage(); why != "" {
		terminal.Fprintf(q.out, "reason for failure: %s\n", why)
	}
	n := 0
	for _, g := range groups {
		n += len(g.Counters)
	}
	terminal.Fprintf(q.out, "Counters: %d\n", n)
	for _, g := range groups {
		terminal.Fprintf(q.out, "\t%s\n", g.Name)
		for _, c := range g.Counters {
			terminal.Fprintf(q.out, "\t\t%s=%d\n", c.Name, c.Value)
		}
	}
	return nil
}

// fraction formats a share as Java does: 1.0 and 0.5, where Go has 1. Scripts compare with 1.0.
func fraction(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 32)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// statsOf returns the numbers of a cluster's job. Times of slots are not part of a job's status, so
// their counters are 0 here and not in the output of hadoop jar.
func statsOf(s *slotwisev1.JobStatus) *hadoop.Stats {
	out := &hadoop.Stats{
		Maps: int(s.GetMaps().GetTotal()), Reduces: int(s.GetReduces().GetTotal()), Failures: int(s.GetMaps().GetFailed() + s.GetReduces().GetFailed()),
		Counters: map[string]int64{}, User: map[string]int64{},
	}
	// The position is the number of the kind: maps are 0.
	for kind, c := range []*slotwisev1.Counters{s.GetMapCounters(), s.GetReduceCounters()} {
		set := wire.DecodeCounters(c)
		set.PutJSON(out.Counters, job.Kind(kind).String())
		for name, n := range set.User() {
			out.User[name] += n
		}
	}
	return out
}

// counterValue returns a counter by the name of its group or by the name of the class that defines
// the group in Hadoop. An unknown counter is 0, as for a job that has not counted anything.
func counterValue(groups []hadoop.Group, group, name string) int64 {
	// Scripts name a counter by its constant, MAP_INPUT_RECORDS, or by the words of the listing.
	upper := func(s string) string { return strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(s), " ", "_")) }
	if strings.HasSuffix(group, "TaskCounter") || strings.HasSuffix(group, "Task$Counter") {
		group = "Map-Reduce Framework"
	}
	for _, g := range groups {
		if strings.TrimSpace(g.Name) != strings.TrimSpace(group) {
			continue
		}
		i := slices.IndexFunc(g.Counters, func(c hadoop.Counter) bool {
			return strings.TrimSpace(c.Name) == strings.TrimSpace(name) || upper(c.Name) == name
		})
		if i >= 0 {
			return g.Counters[i].Value
		}
	}
	return 0
}
