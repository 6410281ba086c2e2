package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
)

// TestKubernetesSchema decodes the rendered objects of deploy/helm into the types of
// Kubernetes' API, and rejects fields that these do not have. The test is in this module
// because nothing else needs the types. The ServiceMonitor is not Kubernetes' own.
func TestKubernetesSchema(t *testing.T) {
	files, err := filepath.Glob("../deploy/helm/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no rendered objects", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var o map[string]any
			if err := d.Decode(&o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if o["kind"] == "ServiceMonitor" {
				continue
			}
			typed := map[any]any{
				"v1 ServiceAccount": &core.ServiceAccount{}, "v1 Service": &core.Service{},
				"rbac.authorization.k8s.io/v1 Role": &rbac.Role{}, "rbac.authorization.k8s.io/v1 RoleBinding": &rbac.RoleBinding{},
				"rbac.authorization.k8s.io/v1 ClusterRole": &rbac.ClusterRole{}, "rbac.authorization.k8s.io/v1 ClusterRoleBinding": &rbac.ClusterRoleBinding{},
				"apps/v1 StatefulSet": &apps.StatefulSet{}, "apps/v1 Deployment": &apps.Deployment{},
				"policy/v1 PodDisruptionBudget":      &policy.PodDisruptionBudget{},
				"networking.k8s.io/v1 NetworkPolicy": &networking.NetworkPolicy{},
			}[o["apiVersion"].(string)+" "+o["kind"].(string)]
			if typed == nil {
				t.Errorf("%s: no type for %v %v", file, o["apiVersion"], o["kind"])
				continue
			}
			b, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			strict := json.NewDecoder(bytes.NewReader(b))
			strict.DisallowUnknownFields()
			if err := strict.Decode(typed); err != nil {
				t.Errorf("%s: %v %v: %v", file, o["kind"], o["metadata"], err)
			}
		}
	}
}
