// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/workload"
)

const (
	portalNamespace = "portal-emulator"
	portalPort      = 8443
	adminPort       = 8444
	password        = "password of the portal's user"
)

// emulatorDockerfile builds an image with the emulator and the servers that run its clusters.
const emulatorDockerfile = `FROM scratch
COPY portal-emulator /
COPY etcd kube* kwok* /kubernetes/
USER 65532:65532
ENTRYPOINT ["/portal-emulator"]
`

// portal is the emulator in its Pod.
type portal struct {
	pod *corev1.Pod
	ca  string
}

// startPortal runs the emulator in the management cluster.
func startPortal(ctx context.Context) (*portal, error) {
	image := os.Getenv("E2E_EMULATOR_IMAGE")
	if image == "" {
		image = "portal-emulator:e2e"
		files := []string{"portal-emulator", "etcd", "kube-controller-manager", "kube-scheduler", "kwok", "kwok-stages.yaml"}
		for _, version := range workload.Versions() {
			files = append(files, "kube-apiserver-"+version)
		}
		if err := buildImage(ctx, image, emulatorDockerfile, filepath.Join(env.root, "bin"), files...); err != nil {
			return nil, fmt.Errorf("run make build kube: %w", err)
		}
		if err := load(ctx, image); err != nil {
			return nil, err
		}
	}
	p := &portal{pod: emulatorPod(image)}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: portalNamespace}}, p.pod} {
		if err := env.home.Client.Create(ctx, object); err != nil {
			return nil, err
		}
	}
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		err := env.home.Client.Get(ctx, client.ObjectKeyFromObject(p.pod), p.pod)
		containers := p.pod.Status.ContainerStatuses
		return len(containers) == 1 && containers[0].Ready, err
	})
	if err != nil {
		return nil, fmt.Errorf("%w; its containers: %+v", err, p.pod.Status.ContainerStatuses)
	}
	ca, err := p.ask(ctx, http.MethodGet, "/ca", nil)
	p.ca = string(ca)
	return p, err
}

// emulatorPod returns a Pod that uses the network and the address of its node.
func emulatorPod(image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: portalNamespace, Name: "portal"},
		Spec: corev1.PodSpec{
			HostNetwork:     true,
			RestartPolicy:   corev1.RestartPolicyNever, // a restart would lose the emulator's state
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](65532), FSGroup: ptr.To[int64](65532)},
			Tolerations:     []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "portal", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
				Env: []corev1.EnvVar{
					{Name: "ADDRESS", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.hostIP"}}},
					{Name: "PORTAL_EMULATOR_PASSWORD", Value: password},
				},
				Args: []string{
					fmt.Sprintf("--listen=0.0.0.0:%d", portalPort), fmt.Sprintf("--admin-listen=127.0.0.1:%d", adminPort),
					"--host=$(ADDRESS)", "--workload-host=$(ADDRESS)", "--workload-bind=0.0.0.0",
					"--kubernetes-binaries=/kubernetes", "--job-duration=all=5s", "--seed=1", "--request-log=-",
				},
				// The API servers of all clusters run in this container. Without a request they would get only the CPU that other Pods
				// leave.
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
					TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(portalPort)},
				}},
				VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
			}},
			Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

// identity returns a Secret with the credentials of the portal's user.
func (p *portal) identity(namespace string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: identityName},
		StringData: map[string]string{
			infrav1.IdentityBaseURL:  fmt.Sprintf("https://%s:%d", p.pod.Status.HostIP, portalPort),
			infrav1.IdentityEmail:    emulator.DefaultEmail,
			infrav1.IdentityPassword: password,
			infrav1.IdentityCABundle: p.ca,
		},
	}
}

// books reads a list from the admin listener.
func books[T any](ctx context.Context, p *portal, path string) (list []T, err error) {
	content, err := p.ask(ctx, http.MethodGet, path, nil)
	if err == nil {
		err = json.Unmarshal(content, &list)
	}
	return list, err
}

// ask sends a request to the admin listener, which is on the node's loopback only, through a port forward of its own.
func (p *portal) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	transport, upgrader, err := spdy.RoundTripperFor(env.home.Config)
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(env.home.Config)
	if err != nil {
		return nil, err
	}
	url := clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.pod.Namespace).Name(p.pod.Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	defer close(stop)
	forwarder, err := portforward.New(dialer, []string{fmt.Sprintf("0:%d", adminPort)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return nil, fmt.Errorf("port forward to the emulator: %w", err)
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d%s", ports[0].Local, path), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the emulator's admin listener: %w", err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the emulator's admin listener: %s %s: %s: %s", method, path, response.Status, content)
	}
	return content, err
}
