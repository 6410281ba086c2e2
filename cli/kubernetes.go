package cli

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/deploy/helm"
	"github.com/slotwise/slotwise/internal/live/secure"
)

// newKubernetes returns the command that prints the objects of a cluster on Kubernetes. It prints
// and does not apply: who may change a cluster, and how changes are reviewed, differ from site to
// site.
func newKubernetes() *cobra.Command {
	c := &cobra.Command{
		Use:   "kubernetes",
		Short: "Run a cluster on Kubernetes",
		Long: `Prints the objects that run a master and its workers on Kubernetes, for kubectl
apply. The commands do not contact Kubernetes.`,
		Example: `  slotwise kubernetes manifest
  slotwise kubernetes secrets`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newManifest(), newKubernetesSecrets())
	return c
}

// kubernetesFlags are the flags of kubernetes secrets; manifest has them, too.
type kubernetesFlags struct {
	namespace, credentials string
	valid                  time.Duration
	masters                int // of manifest; 0 is unknown
}

// register declares the flags.
func (f *kubernetesFlags) register(c *cobra.Command) {
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.namespace, "namespace", "slotwise", "`name` of the namespace, which holds nothing else")
	s.StringVar(&f.credentials, "credentials", "", "`directory` of the cluster's certificates; they are made if it has none (required)")
	s.DurationVar(&f.valid, "valid", 365*24*time.Hour, "for how `long` certificates that are made now are valid")
}

// newKubernetesSecrets returns the command that prints the Secrets alone. They are apart from the
// chart, because a chart's values end in places such as a repository, where keys must not be.
func newKubernetesSecrets() *cobra.Command {
	f := &kubernetesFlags{}
	c := &cobra.Command{
		Use:   "secrets --credentials DIR",
		Short: "Print the namespace and the Secrets of a cluster",
		Long: `Prints the namespace and the Secrets with the certificates of master and workers as
YAML. Apply them before the Helm chart in deploy/helm is installed, which has no
Secrets, and after certificates have been renewed.

The key of the authority stays in DIR.`,
		Example: `  slotwise kubernetes secrets --credentials creds | kubectl apply -f -
  helm install slotwise deploy/helm --namespace slotwise --set image=registry.example.org/slotwise:1`,
		Args: noArgs,
	}
	f.register(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		secrets, err := f.secrets()
		if err != nil {
			return err
		}
		_, err = io.WriteString(c.OutOrStdout(), secrets)
		return err
	}
	return c
}

// manifestFlags are the flags of kubernetes manifest. Each is a value of the chart in deploy/helm,
// which has more. Only what a first cluster needs is a flag, with the few values that many clusters
// require: a registry with credentials, a class of storage, a larger master.
type manifestFlags struct {
	kubernetesFlags
	image, imagePullSecret string
	workers, maxWorkers    int
	// 0 is one for each processor.
	slots int
	// Kubernetes' own texts, since the chart passes them on unparsed.
	cpu, memory, scratch  string
	storage, storageClass string
	masterMemory, policy  string
	drain, serve          time.Duration
	storageRoots          []string
	storageSecret         string
	sharedClaim           string
	monitor               bool
	accounts              []string
}

// newManifest returns the command that prints all objects of a cluster.
func newManifest() *cobra.Command {
	f := &manifestFlags{}
	c := &cobra.Command{
		Use:   "manifest --image IMAGE --credentials DIR",
		Short: "Print all objects of a cluster as YAML for kubectl apply",
		Long: `Prints a namespace, the certificates as Secrets, a master with a volume for its
journal, workers, and the rules of who reaches them, as YAML for kubectl apply. Nothing
runs as root or may write to its image.

Certificates are made in the directory of --credentials and reused from then on. Keep
it: it holds the key of the authority, and the certificate of an admin.

The way from a cluster to a result, with the making of an image:
` + docsURL + `kubernetes.md`,
		Example: `  slotwise kubernetes manifest --image registry.example.org/slotwise:1 --credentials creds > slotwise.yaml
  slotwise kubernetes manifest --image localhost/slotwise:1 --credentials creds --workers 8 --cpu 4 --memory 8Gi | kubectl apply -f -`,
		Args: noArgs,
	}
	f.register(c)
	s := c.Flags()
	s.StringVar(&f.image, "image", "", "`name` of the image with its tag (required)")
	s.StringVar(&f.imagePullSecret, "image-pull-secret", "", "`name` of a Secret with the credentials of the registry")
	s.IntVar(&f.workers, "workers", 2, "`number` of workers; the least number with --max-workers")
	s.IntVar(&f.maxWorkers, "max-workers", 0, "let the master scale the workers with the work, up to this `number` (default: it does not)")
	s.IntVar(&f.slots, "slots", 0, "`number` of map slots of a worker, with half as many reduce slots (default: one for each processor)")
	s.StringVar(&f.cpu, "cpu", "2", "processors of a worker, a Kubernetes `quantity`")
	s.StringVar(&f.memory, "memory", "4Gi", "memory of a worker, a Kubernetes `quantity`")
	s.StringVar(&f.scratch, "scratch", "5Gi", "disk `space` that a worker requests for map outputs and sorted runs")
	s.IntVar(&f.masters, "masters", 1, "`number` of masters, 1 or 3; three go on when one dies, and need one step more at the first start")
	s.StringVar(&f.storage, "storage", "10Gi", "`size` of the volume for the master's journal and history")
	s.StringVar(&f.storageClass, "storage-class", "", "`name` of its storage class (default: the cluster's default class)")
	s.StringVar(&f.masterMemory, "master-memory", "1Gi", "memory of the master, a Kubernetes `quantity`")
	s.StringVar(&f.policy, "policy", "fifo", "scheduling `policy` of the master; see slotwise policies")
	s.DurationVar(&f.drain, "drain-timeout", 5*time.Minute, "for how `long` attempts of a deleted worker may run on")
	// Shorter than a worker's own default of 30 minutes: Kubernetes waits so long before it has drained a node.
	s.DurationVar(&f.serve, "serve-timeout", 5*time.Minute, "for how `long` reduces may fetch its map outputs after that")
	s.StringArrayVar(&f.storageRoots, "storage-root", nil, "`URI` of a directory that users' jobs may read and write below (repeatable)")
	s.StringVar(&f.storageSecret, "storage-secret", "", "`name` of a Secret whose keys become variables, such as AWS_ACCESS_KEY_ID")
	s.StringVar(&f.sharedClaim, "shared-claim", "", "`name` of a PersistentVolumeClaim to mount at /shared in master and workers")
	s.StringArrayVar(&f.accounts, "service-account", nil, "let pods with this service account, `NAMESPACE:NAME`, submit jobs as users (repeatable; NAME * is all of the namespace)")
	s.BoolVar(&f.monitor, "monitor", false, "add a ServiceMonitor for the Prometheus operator")
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c.OutOrStdout()) }
	return c
}

// run prints the objects. Nothing is printed before all objects are known, because kubectl apply at
// the end of the pipe would make the first ones.
func (f *manifestFlags) run(out io.Writer) error {
	values, err := f.values()
	if err != nil {
		return err
	}
	secrets, err := f.secrets()
	if err != nil {
		return err
	}
	objects, err := helm.Render(values, f.namespace)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, secrets+"---\n"+string(objects))
	return err
}

var (
	// objectName matches names of Kubernetes objects. The chart inserts them without quotes.
	objectName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`) })
	// quantity matches Kubernetes quantities above 0, as far as the manifest needs them.
	quantity = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(0*[1-9][0-9]{0,14}(\.[0-9]{1,3})?|0?\.[0-9]{0,2}[1-9])(m|k|M|G|T|Ki|Mi|Gi|Ti)?$`)
	})
)

// Limits of the manifest's numbers.
const (
	maxPods      = 10_000
	maxPodSlots  = 1_000
	maxPodDrain  = 24 * time.Hour
	graceReserve = 30 * time.Second // between the worker's own time limits and the kubelet's
)

// values checks the flags and returns the values of the chart. The chart is evaluated by our own
// package and inserts values as text, so each must have a form that cannot end a YAML value.
func (f *manifestFlags) values() (helm.Values, error) {
	if f.image == "" {
		return nil, misuse("--image is missing: the image of master and workers; go run ./deploy/image makes one")
	}
	// The chart's text has the names without quotes, so characters of YAML must not get in.
	if strings.ContainsFunc(f.image, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || len(f.image) > 512 {
		return nil, misuse("--image %q: want a name such as registry.example.org/slotwise:1", f.image)
	}
	for _, n := range []struct{ flag, value string }{
		{"image-pull-secret", f.imagePullSecret}, {"storage-class", f.storageClass}, {"storage-secret", f.storageSecret}, {"shared-claim", f.sharedClaim},
	} {
		if n.value != "" && !objectName().MatchString(n.value) {
			return nil, misuse("--%s %q: not the name of a Kubernetes object (small letters, digits and hyphens)", n.flag, n.value)
		}
	}
	for _, q := range []struct{ flag, value string }{
		{"cpu", f.cpu}, {"memory", f.memory}, {"scratch", f.scratch}, {"storage", f.storage}, {"master-memory", f.masterMemory},
	} {
		if !quantity().MatchString(q.value) {
			return nil, misuse("--%s %q: not a Kubernetes quantity such as 2, 500m or 4Gi", q.flag, q.value)
		}
	}
	switch {
	case f.masters != 1 && f.masters != 3:
		return nil, misuse("--masters %d: must be 1 or 3", f.masters)
	case f.workers < 0 || f.workers > maxPods:
		return nil, misuse("--workers %d: must be from 0 to %d", f.workers, maxPods)
	case f.maxWorkers < 0 || f.maxWorkers > maxPods || f.maxWorkers > 0 && f.maxWorkers < f.workers:
		return nil, misuse("--max-workers %d: must be from --workers, which is %d, to %d", f.maxWorkers, f.workers, maxPods)
	case f.slots < 0 || f.slots > maxPodSlots:
		return nil, misuse("--slots %d: must be from 0 to %d", f.slots, maxPodSlots)
	case f.drain <= 0 || f.drain > maxPodDrain:
		return nil, misuse("--drain-timeout %v: must be above 0 and at most %v", f.drain, maxPodDrain)
	case f.serve <= 0 || f.serve > maxPodDrain:
		return nil, misuse("--serve-timeout %v: must be above 0 and at most %v", f.serve, maxPodDrain)
	}
	// The chart's own defaults, so that manifest and helm install make the same objects.
	v, err := helm.Defaults()
	if err != nil {
		return nil, err
	}
	v["image"], v["imagePullSecret"] = f.image, f.imagePullSecret
	v["workers"], v["mapSlots"], v["reduceSlots"] = f.workers, f.slots, (f.slots+1)/2
	if f.maxWorkers > 0 {
		v["autoscale"] = fmt.Sprintf("min=%d,max=%d", f.workers, f.maxWorkers)
	}
	v["cpu"], v["memory"], v["scratch"] = f.cpu, f.memory, f.scratch
	v["drainTimeout"], v["serveTimeout"] = f.drain.String(), f.serve.String()
	// The kubelet kills a pod after this time. It must outlast the drain, or map outputs vanish under
	// running reduces. Rounded up to whole seconds, which are all that the field has.
	v["terminationGracePeriodSeconds"] = int((f.drain + f.serve + graceReserve + time.Second - 1) / time.Second)
	v["threeMasters"] = f.masters == 3
	v["storage"], v["storageClass"], v["masterMemory"], v["policy"] = f.storage, f.storageClass, f.masterMemory, f.policy
	allowed, err := parseAccounts(f.accounts)
	if err != nil {
		return nil, err
	}
	accounts := []any{}
	for _, a := range allowed {
		accounts = append(accounts, map[string]any{"namespace": a.Namespace, "name": a.Name})
	}
	roots := []any{}
	for _, r := range f.storageRoots {
		roots = append(roots, r)
	}
	v["serviceAccounts"], v["storageRoots"] = accounts, roots
	v["storageSecret"], v["sharedClaim"], v["monitor"] = f.storageSecret, f.sharedClaim, f.monitor
	return v, nil
}

// A kubernetesCert is a certificate of a cluster on Kubernetes and the Secrets that hold it. name
// is the name of its files in the directory and in the Secrets; id is the identity that it proves;
// hosts are the names of a server, none for a client.
type kubernetesCert struct {
	name    string
	id      secure.Identity
	hosts   []string
	secrets []string
}

// certificates returns the certificates of a cluster in a namespace. The master's Secret
// holds an admin's certificate, for slotwise commands that kubectl exec runs beside it.
func (f *kubernetesFlags) certificates() []kubernetesCert {
	const master, worker, monitor = "slotwise-master", "slotwise-worker", "slotwise-monitor"
	service := master + "." + f.namespace + ".svc"
	return []kubernetesCert{
		{"server", secure.Identity{User: "master", Role: secure.Master}, []string{
			// The first name is the one that issue verifies.
			service, service + ".cluster.local", master, master + "." + f.namespace, "localhost", "127.0.0.1", "::1",
			"*." + service, // one of three masters
		}, []string{master}},
		{"worker", secure.Identity{User: "worker", Role: secure.Worker}, []string{worker}, []string{worker}},
		{"admin", secure.Identity{User: "admin", Role: secure.Admin}, nil, []string{master}},
		{"monitor", secure.Identity{User: "monitor", Role: secure.User}, nil, []string{monitor}},
	}
}

// secrets returns the namespace and the Secrets as YAML. It makes the certificates that the
// directory lacks. The namespace enforces the restricted profile of pod security, so an image that
// runs as root is refused by Kubernetes itself.
func (f *kubernetesFlags) secrets() (string, error) {
	switch {
	case f.credentials == "":
		return "", misuse("--credentials is missing: the directory of the cluster's certificates")
	case !objectName().MatchString(f.namespace):
		return "", misuse("--namespace %q: not a name of a namespace (small letters, digits and hyphens)", f.namespace)
	case f.valid <= 0:
		return "", misuse("--valid %v: must be positive", f.valid)
	}
	certs := f.certificates()
	if err := f.issue(certs); err != nil {
		return "", misuse("--credentials: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: v1
kind: Namespace
metadata:
  name: %s
  labels:
    app.kubernetes.io/name: slotwise
    pod-security.kubernetes.io/enforce: restricted
`, f.namespace)
	files := map[string][]string{}
	var names []string
	// A certificate may belong to several Secrets. Each has the authority's certificate once.
	for _, c := range certs {
		for _, s := range c.secrets {
			if files[s] == nil {
				names, files[s] = append(names, s), []string{"ca.pem"}
			}
			files[s] = append(files[s], c.name+".pem", c.name+"-key.pem")
		}
	}
	for _, s := range names {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  namespace: %s\n  labels: {app.kubernetes.io/name: slotwise}\ntype: Opaque\ndata:\n", s, f.namespace)
		for _, file := range files[s] {
			data, err := os.ReadFile(filepath.Join(f.credentials, file))
			if err != nil {
				return "", misuse("--credentials: %w", err)
			}
			fmt.Fprintf(&b, "  %s: %s\n", file, base64.StdEncoding.EncodeToString(data))
		}
	}
	return b.String(), nil
}

// issue makes the authority and the certificates that the directory lacks. It refuses a master's
// certificate that was made for another namespace. A kill between two certificates leaves a
// directory that the next call completes; the authority is made first, and never twice.
func (f *kubernetesFlags) issue(certs []kubernetesCert) error {
	a, err := secure.OpenAuthority(f.credentials)
	// Other errors must not lead to a new authority: certificates of the old one would become
	// useless.
	if errors.Is(err, os.ErrNotExist) {
		a, err = secure.NewAuthority(f.credentials)
	}
	if err != nil {
		return err
	}
	for _, c := range certs {
		path := a.Files(c.name).Cert
		text, err := os.ReadFile(path)
		switch {
		// Existing certificates are reused, so that applying the manifest again changes no Secret.
		case errors.Is(err, os.ErrNotExist):
			if err := a.Issue(c.name, c.id, c.hosts, f.valid); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		// A client's certificate has no names that could be wrong.
		if len(c.hosts) == 0 {
			continue
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return fmt.Errorf("%s holds no certificate", path)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		// Workers would refuse the master, with an error that does not name the namespace.
		if cert.VerifyHostname(c.hosts[0]) != nil {
			return fmt.Errorf("%s is not valid for %s: give each namespace a directory of its own", path, c.hosts[0])
		}
		// The masters would refuse each other. Earlier versions made certificates for one master.
		if pod := "slotwise-master-0." + c.hosts[0]; c.id.Role == secure.Master && f.masters == 3 && cert.VerifyHostname(pod) != nil {
			return fmt.Errorf("%s is not valid for %s, one of three masters: remove it and its key, and they are made again", path, pod)
		}
	}
	return nil
}
