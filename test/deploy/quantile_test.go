package deploy

import "testing"

func TestAdmissionTimes(t *testing.T) {
	const text = `# TYPE apiserver_admission_webhook_admission_duration_seconds histogram
apiserver_admission_webhook_admission_duration_seconds_bucket{name="pods.stategraft.io",operation="CREATE",rejected="false",type="admit",le="0.005"} 90
apiserver_admission_webhook_admission_duration_seconds_bucket{name="pods.stategraft.io",operation="CREATE",rejected="false",type="admit",le="0.025"} 99
apiserver_admission_webhook_admission_duration_seconds_bucket{name="pods.stategraft.io",operation="CREATE",rejected="false",type="admit",le="+Inf"} 100
apiserver_admission_webhook_admission_duration_seconds_sum{name="pods.stategraft.io",operation="CREATE",rejected="false",type="admit"} 1
apiserver_admission_webhook_admission_duration_seconds_count{name="pods.stategraft.io",operation="CREATE",rejected="false",type="admit"} 100
apiserver_admission_webhook_admission_duration_seconds_bucket{name="others.example.com",operation="CREATE",rejected="false",type="admit",le="0.025"} 7
apiserver_admission_webhook_admission_duration_seconds_bucket{name="others.example.com",operation="CREATE",rejected="false",type="admit",le="+Inf"} 7
apiserver_admission_webhook_admission_duration_seconds_sum{name="others.example.com",operation="CREATE",rejected="false",type="admit"} 1
apiserver_admission_webhook_admission_duration_seconds_count{name="others.example.com",operation="CREATE",rejected="false",type="admit"} 7
`
	all, err := admissionTimes(text)
	if err != nil {
		t.Fatal(err)
	}
	before := Buckets{Total: 50, Below: map[float64]float64{0.005: 50, 0.025: 50}}
	since := all.Since(before)
	if all.Total != 100 || since.Total != 50 || since.Within(0.025) != 0.98 {
		t.Errorf("all %+v, since %+v, within 25 ms %v", all, since, since.Within(0.025))
	}
}
