// +kubebuilder:object:generate=true
// +groupName=stategraft.io

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of Stategraft's objects.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

// AddToScheme adds the objects to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Restore{}, &RestoreList{}, &Backup{}, &BackupList{}, &BackupSchedule{}, &BackupScheduleList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
