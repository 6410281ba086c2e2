// Package kubetest tests slotwise on a real Kubernetes node. Its tests need a cluster that
// nothing else uses:
//
//	SLOTWISE_KUBECONFIG=FILE SLOTWISE_KUBE_IMAGE=localhost/slotwise:1 go -C lab test -count=1 -v ./kubetest
//
// They are skipped without these variables. docs/kubernetes.md states the requirements on the cluster.
package kubetest
