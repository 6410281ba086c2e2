package kubetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// accounts submits jobs from pods, with the tokens of their service accounts: with one that
// the master accepts, by the Pod of docs/kubernetes.md, and with one that it does not.
func accounts(t *testing.T, c *cluster, want string) {
	text, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, pod, _ := strings.Cut(string(text), "```yaml\n")
	pod, _, _ = strings.Cut(pod, "```")
	for _, r := range [][2]string{
		{"namespace: team-a", "namespace: " + c.namespace},
		{"registry.example.org/slotwise:1", os.Getenv("SLOTWISE_KUBE_IMAGE")},
		{"slotwise-master.slotwise.svc", "slotwise-master." + c.namespace + ".svc"},
		{"s3://bucket/logs", "/shared/in"}, {"s3://bucket/counts", "/shared/by-account"}, {"--wait", "--wait, --split-size, 1MiB"},
		{"readOnly: true}]", "readOnly: true}, {name: shared, mountPath: /shared}]\n" +
			"    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"},
		{"  volumes:\n", "  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}\n" +
			"  volumes:\n  - {name: shared, persistentVolumeClaim: {claimName: shared}}\n"},
	} {
		if strings.Count(pod, r[0]) != 1 {
			t.Fatalf("the Pod of the page has no %q, or several", r[0])
		}
		pod = strings.Replace(pod, r[0], r[1], 1)
	}
	other := strings.NewReplacer("name: submit,", "name: refused,", "serviceAccountName: etl", "serviceAccountName: default", "by-account", "refused-account").Replace(pod)
	c.must("create", "configmap", "slotwise-ca", "--from-file=ca.pem="+filepath.Join(c.dir, "creds", "ca.pem"))
	c.must("create", "serviceaccount", "etl")
	c.apply(pod + "---\n" + other)
	ended := func(name string) string {
		t.Helper()
		phase := ""
		c.await("pod "+name+" ends", func() bool {
			phase, _ = c.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")
			return phase == "Succeeded" || phase == "Failed"
		})
		return phase + "\n" + c.must("logs", name)
	}
	if got := ended("submit"); !strings.HasPrefix(got, "Succeeded") {
		t.Fatal(got)
	}
	if got := result(t, filepath.Join(c.shared, "by-account")); got != want {
		t.Errorf("%d bytes of result differ from the %d of a run in one process", len(got), len(want))
	}
	if got := ended("refused"); !strings.HasPrefix(got, "Failed") || !strings.Contains(got, "does not accept the service account "+c.namespace+":default") {
		t.Error(got)
	}
	out, err := c.exec("history", "--limit", "1", "-o", "json")
	if err != nil || !strings.Contains(out, `"system:serviceaccount:`+c.namespace+`:etl"`) {
		t.Errorf("the job's user: %v: %s", err, out)
	}
}
