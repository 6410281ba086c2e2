package yarn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/live/machines"
)

// Service is a Provider: the containers of one service. Its machine NAME-2 is the container
// that YARN calls worker-2. YARN never uses the number of a machine again that was given
// back; a container that replaces a broken one has the number of the broken one.
type Service struct {
	*Cluster
	name string

	mu     sync.Mutex
	marked map[string]bool // the names in the directory of marks; nil until it has been read
	short  time.Time       // since when containers have been missing; zero if none are
}

var _ machines.Provider = (*Service)(nil)

// Service returns the service with a name. It makes no call yet.
func (c *Cluster) Service(name string) *Service {
	return &Service{Cluster: c, name: name}
}

// Name returns the service's name.
func (s *Service) Name() string { return s.name }

// App is the application of a service, as the ResourceManager reports it.
type App struct {
	ID          string `json:"id"`
	State       string `json:"state"`
	Final       string `json:"finalStatus"`
	Queue       string `json:"queue"`
	Diagnostics string `json:"diagnostics"`
	Containers  int    `json:"runningContainers"` // with the service master's; -1 if it has ended
	Memory      int    `json:"allocatedMB"`
	Cores       int    `json:"allocatedVCores"`
	LogsURL     string `json:"amContainerLogs"`
	StartedAt   int64  `json:"startedTime"` // milliseconds since 1970
}

// Ended reports whether the application has ended.
func (a *App) Ended() bool {
	return a.State == "FINISHED" || a.State == "FAILED" || a.State == "KILLED"
}

// Reason returns the first line of the application's diagnostics.
func (a *App) Reason() string {
	first, _, _ := strings.Cut(strings.TrimSpace(a.Diagnostics), "\n")
	return first
}

// App returns the service's application.
func (s *Service) App(ctx context.Context) (*App, error) {
	id, err := s.id(ctx)
	if err != nil {
		return nil, err
	}
	var reply struct {
		App App `json:"app"`
	}
	if err := s.call(ctx, http.MethodGet, appPath(id), nil, &reply); err != nil {
		return nil, err
	}
	return &reply.App, nil
}

// LogsURL returns the page with the output of a worker, of whichever YARN lists first. Without a
// worker it returns the page of the service master's output.
func (s *Service) LogsURL(ctx context.Context) (string, error) {
	app, err := s.App(ctx)
	if err != nil {
		return "", err
	}
	var tries struct {
		List struct {
			Try list[struct {
				ID     string `json:"appAttemptId"`
				Master string `json:"containerId"`
			}] `json:"appAttempt"`
		} `json:"appAttempts"`
	}
	if err := s.call(ctx, http.MethodGet, appPath(app.ID)+"/appattempts", nil, &tries); err != nil {
		return "", err
	}
	// The application waits for its first container.
	if len(tries.List.Try) == 0 {
		return app.LogsURL, nil
	}
	// The last one listed is the latest, and only that one has containers.
	last := tries.List.Try[len(tries.List.Try)-1]
	var running struct {
		Container list[struct {
			ID  string `json:"containerId"`
			URL string `json:"logUrl"`
		}] `json:"container"`
	}
	if err := s.call(ctx, http.MethodGet, path.Join(appPath(app.ID), "appattempts", last.ID, "containers"), nil, &running); err != nil {
		return "", err
	}
	for _, c := range running.Container {
		// The service master is a container, too, and its log explains no worker.
		if c.ID != last.Master && c.URL != "" {
			return c.URL, nil
		}
	}
	return app.LogsURL, nil
}

// list is a list in an answer. YARN writes some lists of one element as the element alone.
type list[E any] []E

// UnmarshalJSON implements json.Unmarshaler.
func (l *list[E]) UnmarshalJSON(text []byte) error {
	// The ResourceManager's JSON is mapped from XML, in which one element and a list of one look alike. It depends on the
	// class whether Hadoop corrects that.
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		*l = make(list[E], 1)
		return json.Unmarshal(text, &(*l)[0])
	}
	return json.Unmarshal(text, (*[]E)(l))
}

func appPath(id string) string { return "/ws/v1/cluster/apps/" + id }

// id returns the id of the service's application.
func (s *Service) id(ctx context.Context) (string, error) {
	id, err := s.application(ctx, s.name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("user %s has no YARN service %s: check its name, or start it with slotwise yarn up: %w", s.user, s.name, err)
	}
	return id, err
}

// instance is a container, as the services API reports it.
type instance struct {
	ID    string `json:"id"`
	Name  string `json:"component_instance_name"`
	Host  string `json:"bare_host"`
	State string `json:"state"`
}

// place describes the container in words, "" if YARN has not said which one it is.
func (i *instance) place() string {
	switch {
	case i.ID == "":
		return ""
	case i.Host == "":
		return "container " + i.ID
	}
	return "container " + i.ID + " on " + i.Host
}

// status is the state of a service, as the services API reports it.
type status struct {
	State      string `json:"state"`
	Components []struct {
		Name       string     `json:"name"`
		Wanted     int        `json:"number_of_containers"`
		Containers []instance `json:"containers"`
	} `json:"components"`
}

// placement is the time after which a container that YARN has not started is a trouble.
const placement = 30 * time.Second

// Fleet implements machines.Provider.
func (s *Service) Fleet(ctx context.Context) (machines.Fleet, error) {
	var f machines.Fleet
	var st status
	if err := s.call(ctx, http.MethodGet, s.path(), nil, &st); err != nil {
		return f, s.explain(ctx, err)
	}
	// The service master answers before it has read its description. Zero machines would make
	// the loop ask for more.
	if len(st.Components) != 1 || st.Components[0].Name != component {
		return f, s.explain(ctx, fmt.Errorf("YARN service %s has not started its workers yet", s.name))
	}
	marked, err := s.marks(ctx)
	if err != nil {
		return f, err
	}
	c := &st.Components[0]
	f.Replicas = c.Wanted
	for _, i := range c.Containers {
		// The worker in the container named itself by the same number (${COMPONENT_ID}).
		// number begins with a hyphen: worker-2 is NAME-2.
		if number, ok := strings.CutPrefix(i.Name, component); ok {
			name := s.name + number
			f.Machines = append(f.Machines, machines.Machine{Name: name, Leaving: marked[name], Place: i.place()})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := time.Now(); {
	// YARN gives no reason why containers are missing, so only time distinguishes a full queue
	// from a slow start.
	case len(c.Containers) >= c.Wanted:
		s.short = time.Time{}
	case s.short.IsZero():
		s.short = now
	case now.Sub(s.short) > placement:
		f.Trouble = fmt.Sprintf("YARN has not started all containers of service %s for more than %v: its queue or all nodes may be full, or too small for a worker", s.name, placement)
	}
	return f, nil
}

// explain returns the error for a failed call of the services API. If the application does
// not run, the error says so.
func (s *Service) explain(ctx context.Context, err error) error {
	// The first error is kept back: while the application waits for its queue, that one is only a 404.
	app, aerr := s.App(ctx)
	switch {
	case aerr != nil:
		return aerr
	case app.Ended():
		return fmt.Errorf("YARN service %s has ended: %s is %s: %s; start it again with slotwise yarn down and yarn up", s.name, app.ID, app.State, app.Reason())
	case app.State != "RUNNING":
		return fmt.Errorf("YARN service %s has not started: %s is %s: %s", s.name, app.ID, app.State, app.Reason())
	}
	return err
}

func (s *Service) path(names ...string) string {
	return path.Join(append([]string{servicesPath, s.name}, names...)...)
}

// Scale implements machines.Provider. YARN takes one named container away for each call. If
// it must remove more than the named and marked ones, it removes the highest numbers.
func (s *Service) Scale(ctx context.Context, n int, first ...string) error {
	f, err := s.Fleet(ctx)
	if err != nil {
		return err
	}
	var leaving []string
	// Only machines that exist: a repeated call also names machines that the first call has
	// removed.
	for _, m := range f.Machines {
		if slices.Contains(first, m.Name) {
			leaving = append(leaving, m.Name)
		}
	}
	// Marked ones go next, because they are drained already.
	for _, m := range f.Machines {
		if m.Leaving && f.Replicas-len(leaving) > n && !slices.Contains(leaving, m.Name) {
			leaving = append(leaving, m.Name)
		}
	}
	for _, name := range leaving {
		instance := component + strings.TrimPrefix(name, s.name)
		body := map[string]any{"components": []any{map[string]any{"name": component, "decommissioned_instances": []string{instance}}}}
		if err := s.call(ctx, http.MethodPut, s.path(), body, nil); err != nil {
			return s.explain(ctx, err)
		}
		// The mark of a machine that is gone would stay on HDFS for ever.
		if err := s.Mark(ctx, name, false); err != nil {
			return err
		}
	}
	// Each named removal has lowered YARN's number by one.
	if f.Replicas-len(leaving) == n {
		return nil
	}
	// Also after a removal that YARN has not counted: the number is absolute, so a second call changes nothing.
	body := map[string]any{"name": component, "number_of_containers": n}
	if err := s.call(ctx, http.MethodPut, s.path("components", component), body, nil); err != nil {
		return s.explain(ctx, err)
	}
	return nil
}

// Mark implements machines.Provider. A mark is an empty file on HDFS, because YARN keeps no
// notes about containers.
func (s *Service) Mark(ctx context.Context, name string, leaving bool) error {
	marked, err := s.marks(ctx)
	// Nothing to do is the usual case. The loop of machines asks for the marks that it wants in each step.
	if err != nil || marked[name] == leaving {
		return err
	}
	file := path.Join(s.marksDir(), name)
	if leaving {
		if err := s.files.MakeDir(ctx, s.marksDir()); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		err = s.write(ctx, file, 0o600, strings.NewReader(""))
	} else {
		err = s.files.Remove(ctx, file)
	}
	if err != nil {
		return err
	}
	// Only now that HDFS has the mark: an error before leaves the memory as the files are.
	s.mu.Lock()
	defer s.mu.Unlock()
	if leaving {
		s.marked[name] = true
	} else {
		delete(s.marked, name)
	}
	return nil
}

func (s *Service) marksDir() string { return path.Join(s.dir(s.name), "leaving") }

// marks returns the names of the marked machines. It reads the directory once: only one
// process, the master, marks machines.
func (s *Service) marks(ctx context.Context) (map[string]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marked == nil {
		entries, err := s.files.List(ctx, s.marksDir())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		s.marked = map[string]bool{}
		for _, e := range entries {
			s.marked[path.Base(e.Path)] = true
		}
	}
	return maps.Clone(s.marked), nil
}

// removal is the time limit for the end of an application that was killed.
const removal = 2 * time.Minute

// Remove ends the service's application, waits for its end, and removes its directory. It
// may be repeated. Workers end with their containers.
func (s *Service) Remove(ctx context.Context) error {
	id, err := s.id(ctx)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, removal)
	defer cancel()
	for {
		app, err := s.App(limited)
		if notFound(err) { // the ResourceManager has forgotten it
			break
		}
		if err != nil {
			return err
		}
		// Containers may outlive the application for a moment, and they read files of the
		// directory that is removed next.
		if app.Ended() && app.Containers <= 0 {
			break
		}
		// Repeated until the end, in case an order was lost.
		if !app.Ended() {
			// YARN answers before the application has ended, so the state is read again until it has.
			if err := s.call(limited, http.MethodPut, appPath(id)+"/state", map[string]string{"state": "KILLED"}, nil); err != nil {
				return err
			}
		}
		select {
		case <-time.After(300 * time.Millisecond):
		case <-limited.Done():
			return fmt.Errorf("application %s of YARN service %s does not end: %w", id, s.name, context.Cause(limited))
		}
	}
	return s.files.Remove(ctx, s.dir(s.name))
}

// Racks returns the racks of YARN's nodes by host.
func (c *Cluster) Racks(ctx context.Context) (map[string]string, error) {
	var reply struct {
		Nodes struct {
			Node []struct {
				Host string `json:"nodeHostName"`
				Rack string `json:"rack"`
			} `json:"node"`
		} `json:"nodes"`
	}
	if err := c.call(ctx, http.MethodGet, "/ws/v1/cluster/nodes", nil, &reply); err != nil {
		return nil, err
	}
	racks := map[string]string{}
	for _, n := range reply.Nodes.Node {
		racks[n.Host] = n.Rack
	}
	return racks, nil
}
