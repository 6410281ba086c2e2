package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// full returns values that render every part of the template.
func full(t *testing.T) Values {
	t.Helper()
	v, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	v["image"], v["imagePullSecret"], v["storageClass"] = "registry.example.org/slotwise:1", "registry", "fast"
	v["autoscale"], v["storageRoots"] = "min=1,max=8", []any{"s3://bucket/jobs", "hdfs://nn:8020/{user}"}
	v["storageSecret"], v["sharedClaim"], v["monitor"] = "s3-keys", "shared", true
	v["serviceAccounts"] = []any{map[string]any{"namespace": "team-a", "name": "etl"}, map[string]any{"namespace": "team-b", "name": "*"}}
	return v
}

// rendered renders values and fails the test on an error, or if text/template, which Helm uses,
// renders something else.
func rendered(t *testing.T, v Values) []byte {
	t.Helper()
	out, err := Render(v, "slotwise")
	if err != nil {
		t.Fatal(err)
	}
	var helms bytes.Buffer
	err = template.Must(template.New("").Option("missingkey=error").Parse(source)).Execute(&helms, map[string]any{"Values": v, "Release": map[string]any{"Namespace": "slotwise"}})
	if err != nil || !bytes.Equal(helms.Bytes(), out) {
		t.Errorf("Helm would render %v\n%s\nand not\n%s", err, &helms, out)
	}
	return out
}

// objects decodes YAML documents.
func objects(t *testing.T, text []byte) (all []map[string]any) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o map[string]any
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		all = append(all, o)
	}
}

// TestGolden compares rendered objects with testdata. SLOTWISE_REWRITE=1 rewrites them.
func TestGolden(t *testing.T) {
	plain, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	plain["image"] = "localhost/slotwise:1"
	three := full(t)
	three["threeMasters"] = true
	for name, v := range map[string]Values{"plain": plain, "full": full(t), "three": three} {
		file, got := "testdata/"+name+".yaml", rendered(t, v)
		if os.Getenv("SLOTWISE_REWRITE") != "" {
			if err := os.WriteFile(file, got, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what the chart renders; SLOTWISE_REWRITE=1 go test ./deploy/helm rewrites it", file)
		}
	}
}

// TestNumbersOfHelm renders with the types that Helm gives to numbers, float64, and
// expects the same text.
func TestNumbersOfHelm(t *testing.T) {
	v := full(t)
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var like Values
	if err := json.Unmarshal(text, &like); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(rendered(t, v), rendered(t, like)) {
		t.Error("the template renders numbers of type float64 in another way")
	}
}

// TestThreeMasters checks that nothing in the objects permits a master to start without a journal, but
// a ConfigMap that is not among them, and that masters and workers name the same three addresses.
func TestThreeMasters(t *testing.T) {
	v := full(t)
	v["threeMasters"] = true
	text := rendered(t, v)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") && (strings.Contains(line, "--bootstrap") || strings.Contains(line, "--join") || strings.Contains(line, "SLOTWISE_BOOTSTRAP")) {
			t.Errorf("the permission to start without a journal stays: %s", line)
		}
	}
	var found []string
	for _, o := range objects(t, text) {
		if dig(o, "metadata")["name"] == "slotwise-master-start" {
			t.Errorf("the manifest has the permission to start without a journal: %v", o)
		}
		pod := dig(o, "spec", "template", "spec")
		if pod == nil {
			continue
		}
		for _, arg := range pod["containers"].([]any)[0].(map[string]any)["args"].([]any) {
			for _, flag := range []string{"--peers=", "--master=https://"} {
				if list, ok := strings.CutPrefix(arg.(string), flag); ok {
					found = append(found, list)
				}
			}
		}
	}
	const at = ".slotwise-master.slotwise.svc:7077"
	if want := "slotwise-master-0" + at + ",slotwise-master-1" + at + ",slotwise-master-2" + at; len(found) != 2 || found[0] != want || found[1] != want {
		t.Errorf("the lists of masters are %q, want %q twice", found, want)
	}
}

// TestHardened checks the security settings of every container, and that no object
// refers to a missing volume.
func TestHardened(t *testing.T) {
	pods := 0
	for _, o := range objects(t, rendered(t, full(t))) {
		pod := dig(o, "spec", "template", "spec")
		if pod == nil {
			continue
		}
		pods++
		outer := dig(pod, "securityContext")
		if outer["runAsNonRoot"] != true || outer["runAsUser"] != 65532 || dig(outer, "seccompProfile")["type"] != "RuntimeDefault" {
			t.Errorf("pod: %v", outer)
		}
		volumes := map[any]bool{"data": true} // of volumeClaimTemplates
		for _, v := range pod["volumes"].([]any) {
			volumes[v.(map[string]any)["name"]] = true
		}
		for _, c := range pod["containers"].([]any) {
			c := c.(map[string]any)
			s := dig(c, "securityContext")
			drop, _ := dig(s, "capabilities")["drop"].([]any)
			if s["privileged"] != false || s["allowPrivilegeEscalation"] != false || s["readOnlyRootFilesystem"] != true || len(drop) != 1 || drop[0] != "ALL" {
				t.Errorf("container %v: %v", c["name"], s)
			}
			for _, m := range c["volumeMounts"].([]any) {
				if name := m.(map[string]any)["name"]; !volumes[name] {
					t.Errorf("container %v mounts %v, which is no volume", c["name"], name)
				}
			}
		}
	}
	if pods != 2 {
		t.Errorf("%d pod templates, want those of master and worker", pods)
	}
}

// TestLeastRights checks that the master has rights only if it scales its workers or accepts
// service accounts, and never on Secrets.
func TestLeastRights(t *testing.T) {
	v := full(t)
	if text := string(rendered(t, v)); strings.Contains(text, "resources: [secrets]") || !strings.Contains(text, "kind: Role\n") {
		t.Error("the role of a master that scales is missing or may read Secrets")
	}
	v["autoscale"] = ""
	if text := string(rendered(t, v)); strings.Contains(text, "kind: Role\n") || !strings.Contains(text, "kind: ClusterRole\n") || !strings.Contains(text, "automountServiceAccountToken: true") {
		t.Error("a master that accepts service accounts has other rights than to review tokens")
	}
	v["serviceAccounts"] = []any{}
	if text := string(rendered(t, v)); strings.Contains(text, "Role\n") || strings.Contains(text, "automountServiceAccountToken: true") {
		t.Error("a master that does not scale and accepts no service account has rights")
	}
}

// dig returns a nested mapping, nil if it is missing.
func dig(m map[string]any, path ...string) map[string]any {
	for _, p := range path {
		m, _ = m[p].(map[string]any)
	}
	return m
}

// TestUnsupported renders templates that the chart does not have: each is an error and not a text
// that Helm would not make.
func TestUnsupported(t *testing.T) {
	values := map[string]any{"Values": map[string]any{"a": "x", "list": "no list"}}
	for _, source := range []string{
		"{{ .Values.missing }}", "{{ .Values.a.b }}", "{{ .Values.a | upper }}", "{{ with .Values.a }}{{ end }}", "{{ $x := .Values.a }}", "{{ 1 }}",
		"{{ range .Values.list }}{{ end }}", "{{ if .Values.missing }}{{ end }}", "{{ not }}", "{{ printf .Values }}", "{{ if }}",
	} {
		if out, err := render(source, values); err == nil {
			t.Errorf("%s renders %q", source, out)
		}
	}
}
