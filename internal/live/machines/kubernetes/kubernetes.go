// Package kubernetes is a master's side of Kubernetes. It scales the workers of a cluster,
// the pods of a Deployment, and verifies the tokens of service accounts.
//
// It makes five calls to the API: read the Deployment and its pods, change the number of
// replicas, annotate a pod with controller.kubernetes.io/pod-deletion-cost, by which
// Kubernetes chooses the pods that it removes, read the keys that verify tokens, and review a
// token. They need net/http only; docs/architecture.md says why k8s.io/client-go is not used.
//
//	kubernetes.go  the Deployment of the workers
//	accounts.go    the tokens of service accounts
//	keys.go        the signatures of these tokens
//	api.go         calls
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/live/machines"
)

// costKey is the annotation by which Kubernetes chooses the pods to remove: pods with the
// lowest number go first. Pods without it have 0.
const costKey = "controller.kubernetes.io/pod-deletion-cost"

// The numbers of leaving pods, and of the pods that Kubernetes must remove next.
const (
	costLeaving = "-1"
	costFirst   = "-2"
)

// pageSize is the number of pods in one answer.
// A list in one answer would cost the API server memory for all pods at once.
const pageSize = 500

// Deployment is a Provider: the pods of one Deployment.
type Deployment struct {
	*api
	name string
}

var _ machines.Provider = (*Deployment)(nil)

// InCluster returns the Deployment with a name in the namespace of this pod. It makes no
// call yet.
func InCluster(name string) (*Deployment, error) {
	a, err := inCluster()
	if err != nil {
		return nil, err
	}
	return newDeployment(a, name), nil
}

func newDeployment(a *api, name string) *Deployment {
	const rights = "apply the Role and RoleBinding slotwise-master of slotwise kubernetes manifest --max-workers"
	a.remedies = map[int]string{
		http.StatusForbidden: rights, http.StatusUnauthorized: rights, http.StatusNotFound: "check the master's --worker-deployment",
	}
	return &Deployment{a, name}
}

// deployment holds the fields of a Deployment that the provider reads.
type deployment struct {
	Spec struct {
		Replicas int `json:"replicas"`
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// condition is a condition of a Deployment or pod.
type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// pod holds the fields of a pod that the provider reads.
type pod struct {
	Metadata struct {
		Name        string            `json:"name"`
		Deleted     string            `json:"deletionTimestamp"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Node string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string      `json:"phase"`
		Conditions []condition `json:"conditions"`
		Containers []struct {
			Image string `json:"image"`
			State struct {
				Waiting struct {
					Reason  string `json:"reason"`
					Message string `json:"message"`
				} `json:"waiting"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// Fleet implements machines.Provider.
func (d *Deployment) Fleet(ctx context.Context) (machines.Fleet, error) {
	var f machines.Fleet
	var dep deployment
	if err := d.get(ctx, d.path("apis/apps/v1", "deployments", d.name), &dep); err != nil {
		return f, err
	}
	f.Replicas = dep.Spec.Replicas
	for _, c := range dep.Status.Conditions {
		// A quota that is used up is reported here and nowhere else: there is no pod that could
		// have an event.
		if c.Type == "ReplicaFailure" && c.Status == "True" {
			f.Trouble = fmt.Sprintf("Kubernetes makes no pod for deployment %s/%s: %s; %s", d.namespace, d.name, c.Message, remedyOfCreate(c.Message))
		}
	}
	var labels []string
	// Sorted, so that the pages of one list have the same query.
	// matchExpressions are not read: the manifest of slotwise has labels only.
	for _, k := range slices.Sorted(maps.Keys(dep.Spec.Selector.MatchLabels)) {
		labels = append(labels, k+"="+dep.Spec.Selector.MatchLabels[k])
	}
	query := url.Values{"labelSelector": {strings.Join(labels, ",")}, "limit": {fmt.Sprint(pageSize)}}
	for {
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []pod `json:"items"`
		}
		// A list that takes minutes ends with status 410, because etcd has compacted its version. The next step
		// begins anew.
		if err := d.get(ctx, d.path("api/v1", "pods")+"?"+query.Encode(), &page); err != nil {
			return f, err
		}
		for _, p := range page.Items {
			// Pods that are being removed, or that have ended and stay in the list, run no worker and
			// never will.
			if p.Metadata.Deleted == "" && p.Status.Phase != "Failed" && p.Status.Phase != "Succeeded" {
				f.Machines = append(f.Machines, d.machine(&p))
			}
		}
		if page.Metadata.Continue == "" {
			return f, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// machine describes a pod.
func (d *Deployment) machine(p *pod) machines.Machine {
	cost := p.Metadata.Annotations[costKey]
	// Kubernetes compares the annotation of ready pods only, after it has removed the others.
	m := machines.Machine{Name: p.Metadata.Name, Leaving: cost == costLeaving || cost == costFirst, Unready: true,
		Place: fmt.Sprintf("pod %s in namespace %s", p.Metadata.Name, d.namespace)}
	if p.Spec.Node != "" {
		m.Place += " on node " + p.Spec.Node
	}
	// The trouble of a pod is worded without its name, so that many pods give one message.
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			m.Unready = false
		}
		if c.Type == "PodScheduled" && c.Status == "False" && c.Reason == "Unschedulable" {
			m.Trouble = fmt.Sprintf("no node has room for a pod of deployment %s/%s: %s; add nodes, or apply a manifest with smaller --cpu and --memory", d.namespace, d.name, c.Message)
		}
	}
	for _, c := range p.Status.Containers {
		if remedy := remedyOfWaiting(c.State.Waiting.Reason); remedy != "" {
			m.Trouble = fmt.Sprintf("a pod of deployment %s/%s with image %s does not start (%s): %s", d.namespace, d.name, c.Image, c.State.Waiting.Reason, remedy)
		}
	}
	return m
}

// remedyOfCreate returns the remedy for the user when Kubernetes refuses to create pods.
func remedyOfCreate(message string) string {
	if strings.Contains(message, "exceeded quota") {
		return "raise the namespace's ResourceQuota, or lower max of the master's --autoscale"
	}
	return "kubectl describe replicaset in the namespace shows the whole reason"
}

// remedyOfWaiting returns the remedy for a container that waits for a reason; "" for
// reasons that pass by themselves.
func remedyOfWaiting(reason string) string {
	switch reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		return "check the name of the image and the registry's credentials (slotwise kubernetes manifest --image, --image-pull-secret)"
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return "a Secret or volume is missing or wrong; kubectl describe pod names it"
	case "CrashLoopBackOff":
		return "the worker ends again and again; kubectl logs shows why"
	}
	return ""
}

// Scale implements machines.Provider.
func (d *Deployment) Scale(ctx context.Context, n int, first ...string) error {
	// Before the number changes: Kubernetes reads the costs at the moment in which it removes
	// pods.
	// Kubernetes calls the annotation best effort: it compares costs within one ReplicaSet, so during a rolling
	// update it may remove others first. A worker that is removed by mistake costs the attempts that run there,
	// and no result.
	for _, name := range first {
		if err := d.setCost(ctx, name, costFirst); err != nil {
			return err
		}
	}
	// The subresource scale has a separate right, so the master needs none to change the Deployment itself. With that one
	// it could run any image.
	return d.patch(ctx, d.path("apis/apps/v1", "deployments", d.name, "scale"), map[string]any{"spec": map[string]any{"replicas": n}})
}

// Mark implements machines.Provider.
func (d *Deployment) Mark(ctx context.Context, name string, leaving bool) error {
	if leaving {
		return d.setCost(ctx, name, costLeaving)
	}
	return d.setCost(ctx, name, nil)
}

// setCost sets a pod's annotation; nil removes it. A pod that does not exist is no error.
func (d *Deployment) setCost(ctx context.Context, name string, cost any) error {
	// A merge patch changes this annotation and leaves others, also ones that were added since the pod was read.
	patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{costKey: cost}}}
	err := d.patch(ctx, d.path("api/v1", "pods", name), patch)
	if status := (*statusError)(nil); errors.As(err, &status) && status.code == http.StatusNotFound {
		return nil
	}
	return err
}
