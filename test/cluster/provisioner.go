package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// provisioner is the name of what makes the volumes of StorageClass "standard".
const provisioner = "rig.stategraft.io/local"

// startProvisioner begins to make volumes: a fresh folder, owned by root, for
// each claim of the class "standard". They are local volumes, so the kubelet
// applies fsGroup to them as it does to disks in a real cluster, which it does
// not with hostPath. A volume is removed with its claim.
func (cp *ControlPlane) startProvisioner(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(cp.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	factory := informers.NewSharedInformerFactory(client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	volumes := factory.Core().V1().PersistentVolumes().Informer()
	root := cp.VolumesDir()
	log, err := os.OpenFile(cp.state.log("provisioner"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		cancel()
		return fmt.Errorf("opening the log of the provisioner: %w", err)
	}
	report := func(err error) {
		if err != nil && running.Err() == nil {
			fmt.Fprintln(log, time.Now().Format(time.TimeOnly), err)
		}
	}
	claimed := func(object any) {
		if claim, ok := object.(*corev1.PersistentVolumeClaim); ok && claim.Spec.VolumeName == "" &&
			claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName == "standard" {
			report(provision(running, client, root, claim))
		}
	}
	released := func(object any) {
		if pv, ok := object.(*corev1.PersistentVolume); ok && pv.Status.Phase == corev1.VolumeReleased && pv.Spec.Local != nil &&
			pv.Annotations["pv.kubernetes.io/provisioned-by"] == provisioner && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			report(client.CoreV1().PersistentVolumes().Delete(running, pv.Name, metav1.DeleteOptions{}))
			report(os.RemoveAll(pv.Spec.Local.Path))
		}
	}
	for informer, handle := range map[cache.SharedIndexInformer]func(any){claims: claimed, volumes: released} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: handle, UpdateFunc: func(_, object any) { handle(object) }}); err != nil {
			cancel()
			return fmt.Errorf("starting the provisioner: %w", err)
		}
	}
	factory.Start(running.Done())
	done := make(chan struct{})
	go func() {
		<-running.Done()
		factory.Shutdown()
		log.Close()
		close(done)
	}()
	cp.node.cancel, cp.node.done = cancel, done
	return nil
}

// provision makes the volume of a claim, unless it is there.
func provision(ctx context.Context, client kubernetes.Interface, root string, claim *corev1.PersistentVolumeClaim) error {
	name := "pvc-" + string(claim.UID)
	path := filepath.Join(root, fmt.Sprintf("%s_%s_%s", claim.Namespace, claim.Name, claim.UID))
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("making volume %s: %w", path, err)
	}
	size, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		size = resource.MustParse("1Gi")
	}
	_, err := client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: size},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              "standard",
			VolumeMode:                    claim.Spec.VolumeMode,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{NodeName}}}}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the volume of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}
