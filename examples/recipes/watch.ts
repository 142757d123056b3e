interface Application { name: string; status: { level: string; message: string } }
interface Change { upserted?: Application }

const server = "http://127.0.0.1:50051";
const events = new EventSource(`${server}/bellwether.v1.ApplicationService/WatchApplications`);
events.onmessage = (event) => {
  const change = JSON.parse(event.data) as Change;
  if (change.upserted) {
    const { name, status } = change.upserted;
    console.log(`${name} is ${status.level.replace("LEVEL_", "").toLowerCase()}: ${status.message}`);
  }
};
