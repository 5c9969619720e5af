module github.com/capportal/cluster-api-provider-portal/cloud/conformance

go 1.26.0

toolchain go1.26.11

replace github.com/capportal/cluster-api-provider-portal => ../..

require (
	github.com/capportal/cluster-api-provider-portal v0.0.0
	github.com/golang-jwt/jwt/v5 v5.3.1
	github.com/google/go-cmp v0.7.0
	github.com/pquerna/otp v1.5.0
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/boombuler/barcode v1.0.1-0.20190219062509-6c824513bacc // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
